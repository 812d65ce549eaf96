"""From streams and DATAGRAMs to whole objects, within bounds.

Each object is one unidirectional stream or one DATAGRAM. What a peer may leave unfinished is
bounded in number, bytes and time; beyond a bound the oldest is refused (STOP_SENDING), so a
flood of beginnings never pushes out more than itself. Contradictions end the session.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, field

from .errors import WireError
from .events import ObjectReceived
from .limits import Limits
from .quic.adapter import MediaQuic
from .wire import ObjectHeader, split_object

REFUSED_CODE = 0x11
"""STOP_SENDING code of an object that is not wanted or crossed a bound."""


@dataclass(slots=True)
class _Assembly:
    started: float
    data: bytearray = field(default_factory=bytearray)
    header: ObjectHeader | None = None
    start: int = 0
    arrived_by: float = 0.0
    latest: float = math.inf
    refused: bool = False


class Incoming:
    """Assembles objects. `wanted` holds the track numbers this end subscribed to."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.wanted: set[int] = set()
        self.counts: Counter[str] = Counter()
        """Objects by what became of them: received, refused, reset, overdue, ..."""
        self._open: dict[int, _Assembly] = {}
        self._bytes = 0

    def on_datagram(self, payload: bytes, *, now: float) -> ObjectReceived | None:
        """An object in a DATAGRAM, its type byte taken off. Raises WireError."""
        split = split_object(payload, self._limits)
        if split is None:
            raise WireError("an object in a DATAGRAM is cut short in its header")
        header, start = split
        return self._complete(header, payload[start:], started=now, now=now)

    def on_stream(
        self, stream_id: int, data: bytes, *, end: bool, quic: MediaQuic, now: float
    ) -> ObjectReceived | None:
        """Bytes of an object's stream; the object when they complete it. Raises WireError."""
        assembly = self._open.get(stream_id)
        if assembly is None:
            assembly = self._open[stream_id] = _Assembly(
                now, arrived_by=now + self._limits.incomplete_seconds
            )
            self._evict(quic)
        quic.consume(len(data))
        if assembly.refused:
            if end:
                del self._open[stream_id]
            return None
        assembly.data += data
        self._bytes += len(data)
        if data:
            assembly.arrived_by = min(assembly.latest, now + self._limits.incomplete_seconds)
        if assembly.header is None and not self._read_header(assembly, stream_id, quic):
            if end:
                self._drop(stream_id)
                if not assembly.refused:
                    raise WireError("an object's stream ended within its header")
            return None
        header = assembly.header
        if header is None:
            return None
        held = len(assembly.data) - assembly.start
        if held > header.size or (end and held != header.size):
            raise WireError(f"an object announced {header.size} bytes and carried {held}")
        if not end:
            self._evict(quic)
            return None
        payload = bytes(memoryview(assembly.data)[assembly.start :])
        self._drop(stream_id)
        return self._complete(header, payload, started=assembly.started, now=now)

    def on_reset(self, stream_id: int) -> ObjectHeader | None:
        """The peer gave an object up; its header if that much had arrived."""
        assembly = self._open.get(stream_id)
        if assembly is None:
            return None
        self.counts["reset"] += 1
        self._drop(stream_id)
        return assembly.header

    def next_timeout(self) -> float | None:
        """When the next assembly is overdue."""
        return min((a.arrived_by for a in self._open.values() if not a.refused), default=None)

    def expire(self, quic: MediaQuic, *, now: float) -> None:
        """Refuse what is overdue."""
        for stream_id, assembly in list(self._open.items()):
            if not assembly.refused and now >= assembly.arrived_by:
                self.counts["overdue"] += 1
                self._refuse(stream_id, assembly, quic)

    @property
    def held_bytes(self) -> int:
        """Bytes held for objects under assembly."""
        return self._bytes

    @property
    def held_objects(self) -> int:
        """Objects under assembly."""
        return len(self._open)

    def _read_header(self, assembly: _Assembly, stream_id: int, quic: MediaQuic) -> bool:
        split = split_object(assembly.data, self._limits)
        if split is None:
            return False
        header, assembly.start = split
        if header.id.track not in self.wanted:
            self.counts["unwanted"] += 1
            self._refuse(stream_id, assembly, quic)
            return False
        assembly.header = header
        if header.deadline is not None:
            # The deadline runs from capture on the sender's clock; from the first byte seen
            # here it can only be shorter, so this gives up nothing that could still be in time.
            assembly.latest = assembly.started + header.deadline + self._limits.overdue_seconds
            assembly.arrived_by = min(assembly.latest, assembly.arrived_by)
        return True

    def _complete(
        self, header: ObjectHeader, payload: bytes, *, started: float, now: float
    ) -> ObjectReceived | None:
        if len(payload) != header.size:
            raise WireError(f"an object announced {header.size} bytes and carried {len(payload)}")
        if header.id.track not in self.wanted:
            self.counts["unwanted"] += 1
            return None
        self.counts["received"] += 1
        return ObjectReceived(header, payload, first_byte=started, arrived=now)

    def _evict(self, quic: MediaQuic) -> None:
        live = [(s, a) for s, a in self._open.items() if not a.refused]
        while live and (
            len(live) > self._limits.incomplete_objects
            or self._bytes > self._limits.incomplete_bytes
        ):
            stream_id, assembly = live.pop(0)  # dicts keep insertion order: the oldest
            self.counts["evicted"] += 1
            self._refuse(stream_id, assembly, quic)

    def _refuse(self, stream_id: int, assembly: _Assembly, quic: MediaQuic) -> None:
        self._bytes -= len(assembly.data)
        assembly.data = bytearray()
        assembly.refused = True
        self.counts["refused"] += 1
        quic.refuse_stream(stream_id, REFUSED_CODE)

    def _drop(self, stream_id: int) -> None:
        assembly = self._open.pop(stream_id)
        self._bytes -= len(assembly.data)
