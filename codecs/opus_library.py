"""Finding and checking libopus, which PyAV's wheels carry but do not let us steer.

Through PyAV, Opus has no live bit rate, no DTX, no concealment and no in-band FEC decode. The
same shared library, called directly, has all four. It is looked for inside the `av` wheel first
(its version is known to suit), then on the system; each candidate has to encode, decode and
conceal a frame before it is trusted. Source of the numbers: opus_defines.h (RFC 6716's
reference library), whose control codes are frozen by its ABI.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import functools
import logging
import math
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import av

from .errors import CodecError

log = logging.getLogger(__name__)

SAMPLE_RATE = 48_000
"""Hz: limen always codes Opus at 48 kHz; the codec narrows the band itself when bits are few."""
MAX_FRAME_SAMPLES = 5760
"""Samples a channel: the longest packet Opus allows, 120 ms (RFC 6716, section 3.2)."""

SET_BITRATE = 4002
SET_COMPLEXITY = 4010
SET_INBAND_FEC = 4012
SET_PACKET_LOSS_PERC = 4014
SET_DTX = 4016
RESET_STATE = 4028
GET_LOOKAHEAD = 4027
SET_DRED_DURATION = 4050
DEEP_PLC_COMPLEXITY = 5
"""The decoder complexity from which on libopus conceals with its model, if it has one."""
APPLICATIONS = {"voip": 2048, "audio": 2049, "lowdelay": 2051}

_VOID = ctypes.c_void_p
_INT = ctypes.c_int
_INT32 = ctypes.c_int32
_FLOATS = ctypes.POINTER(ctypes.c_float)


@dataclass(frozen=True, slots=True)
class OpusLibrary:
    """A libopus that passed the self-check."""

    lib: Any
    """The loaded library; its functions carry their argument types."""
    path: str
    version: str
    """As the library names itself, for example "libopus 1.6.1"."""
    origin: str
    """"wheel" (inside the av wheel) or "system"."""
    dred: bool
    """Whether this build has deep redundancy (DRED)."""
    deep_plc: bool = False
    """Whether its decoder conceals with a neural model (deep PLC)."""

    def check(self, code: int, doing: str) -> int:
        """Pass a non-negative result on; raise CodecError with the library's words otherwise."""
        if code < 0:
            text = self.lib.opus_strerror(code).decode()
            raise CodecError(f"{self.version}: {doing} failed: {text} ({code})")
        return code

    def control(self, encoder: Any, request: int, value: int, doing: str) -> None:
        """Set one encoder option; raises CodecError when the library refuses it."""
        self.check(self.lib.opus_encoder_ctl(encoder, request, _INT32(value)), doing)


@functools.cache
def find_opus() -> OpusLibrary | None:
    """The first libopus that passes the self-check, or None; looked for once a process."""
    for origin, path in _candidates():
        try:
            return load_opus(path, origin)
        except (OSError, AttributeError, CodecError) as problem:
            log.debug("libopus at %s is not usable: %s", path, problem)
    return None


def load_opus(path: str, origin: str = "system") -> OpusLibrary:
    """Load one library and check it.

    Raises OSError when it cannot be loaded, AttributeError when it lacks a function, CodecError
    when it does not encode, decode and conceal as it should.
    """
    lib = ctypes.CDLL(path)
    # Only the fixed arguments of the variadic *_ctl are declared: on some processors (Apple's
    # arm64) variadic arguments travel differently, and ctypes tells them apart by this count.
    signatures: dict[str, tuple[Any, list[Any]]] = {
        "opus_get_version_string": (ctypes.c_char_p, []),
        "opus_strerror": (ctypes.c_char_p, [_INT]),
        "opus_encoder_create": (_VOID, [_INT32, _INT, _INT, ctypes.POINTER(_INT)]),
        "opus_encoder_destroy": (None, [_VOID]),
        "opus_encoder_ctl": (_INT, [_VOID, _INT]),
        "opus_encode_float": (_INT32, [_VOID, _VOID, _INT, _VOID, _INT32]),
        "opus_decoder_create": (_VOID, [_INT32, _INT, ctypes.POINTER(_INT)]),
        "opus_decoder_ctl": (_INT, [_VOID, _INT]),
        "opus_decoder_destroy": (None, [_VOID]),
        "opus_decode_float": (_INT, [_VOID, ctypes.c_char_p, _INT32, _VOID, _INT, _INT]),
        "opus_packet_get_nb_samples": (_INT, [ctypes.c_char_p, _INT32, _INT32]),
    }
    for name, (result, arguments) in signatures.items():
        function = getattr(lib, name)
        function.restype, function.argtypes = result, arguments
    if hasattr(lib, "opus_packet_has_lbrr"):  # since 1.5
        lib.opus_packet_has_lbrr.restype = _INT
        lib.opus_packet_has_lbrr.argtypes = [ctypes.c_char_p, _INT32]
    version = lib.opus_get_version_string().decode()
    found = OpusLibrary(lib, path, version, origin, dred=False)
    dred = _self_check(found)
    return OpusLibrary(lib, path, version, origin, dred=dred, deep_plc=_has_deep_plc(found))


def _candidates() -> list[tuple[str, str]]:
    package = Path(av.__file__).parent
    patterns = {
        "win32": [(package.parent / "av.libs", "*opus*.dll"), (package, "*opus*.dll")],
        "darwin": [(package / ".dylibs", "libopus*.dylib")],
    }.get(sys.platform, [(package.parent / "av.libs", "libopus*.so*")])
    found = [
        ("wheel", str(path))
        for folder, pattern in patterns
        for path in sorted(folder.glob(pattern))
    ]
    system = ctypes.util.find_library("opus")
    if system is not None:
        found.append(("system", system))
    return found


def _self_check(opus: OpusLibrary) -> bool:
    """Encode, decode and conceal 20 ms of a ramp; says whether DRED is there."""
    lib = opus.lib
    error = _INT(0)
    encoder = lib.opus_encoder_create(SAMPLE_RATE, 1, APPLICATIONS["voip"], ctypes.byref(error))
    opus.check(error.value, "making an encoder")
    decoder = None
    try:
        decoder = lib.opus_decoder_create(SAMPLE_RATE, 1, ctypes.byref(error))
        opus.check(error.value, "making a decoder")
        sound = (ctypes.c_float * 960)(*(((i % 96) - 48) / 100 for i in range(960)))
        packet = ctypes.create_string_buffer(1275)
        opus.control(encoder, SET_BITRATE, 24_000, "setting the bit rate")
        size = opus.check(lib.opus_encode_float(encoder, sound, 960, packet, 1275), "encoding")
        heard = (ctypes.c_float * 960)()
        data = packet.raw[:size]
        for doing, payload in (("decoding", data), ("concealing", None)):
            length = len(payload) if payload else 0
            got = opus.check(lib.opus_decode_float(decoder, payload, length, heard, 960, 0), doing)
            if got != 960 or not any(heard):
                raise CodecError(f"{opus.version}: {doing} gave {got} samples, not 960 audible")
        return bool(lib.opus_encoder_ctl(encoder, SET_DRED_DURATION, _INT32(0)) == 0)
    finally:
        lib.opus_encoder_destroy(encoder)
        if decoder is not None:
            lib.opus_decoder_destroy(decoder)


def _has_deep_plc(opus: OpusLibrary) -> bool:
    """Conceal the same gap at two complexities: only a build with deep PLC hears a difference.

    No control code tells: libopus takes a decoder's complexity whether or not it has a model.
    """
    lib = opus.lib
    error = _INT(0)
    encoder = lib.opus_encoder_create(SAMPLE_RATE, 1, APPLICATIONS["voip"], ctypes.byref(error))
    opus.check(error.value, "making an encoder")
    heard = []
    try:
        packet = ctypes.create_string_buffer(1275)
        packets = []
        for start in range(0, 9600, 960):
            sound = (ctypes.c_float * 960)(
                *(0.4 * math.sin(0.02 * (start + i)) * (1 + (i % 240) / 240) for i in range(960))
            )
            size = lib.opus_encode_float(encoder, sound, 960, packet, 1275)
            packets.append(packet.raw[: opus.check(size, "encoding")])
        for complexity in (0, DEEP_PLC_COMPLEXITY):
            decoder = lib.opus_decoder_create(SAMPLE_RATE, 1, ctypes.byref(error))
            opus.check(error.value, "making a decoder")
            try:
                if lib.opus_decoder_ctl(decoder, SET_COMPLEXITY, _INT32(complexity)) < 0:
                    return False  # before 1.5
                out = (ctypes.c_float * 960)()
                for data in packets:
                    lib.opus_decode_float(decoder, data, len(data), out, 960, 0)
                for _ in range(2):
                    lib.opus_decode_float(decoder, None, 0, out, 960, 0)
                heard.append(bytes(out))
            finally:
                lib.opus_decoder_destroy(decoder)
    finally:
        lib.opus_encoder_destroy(encoder)
    return heard[0] != heard[1]
