"""The one way through PyAV to tell an encoder something about a single picture.

Regions of interest travel as side data, reference flags as metadata, and PyAV can add neither to
a frame. Two filters of FFmpeg can: "addroi" makes room for regions, which is then overwritten in
place, and "metadata" sets a flag. Chains of them are static, since building one costs
milliseconds and using one costs microseconds; there is one chain for each set of flags in use.
"""

from __future__ import annotations

import ctypes
import itertools
from fractions import Fraction
from typing import cast

import av
import av.filter
from av.sidedata.sidedata import SideData, SideDataContainer
from av.sidedata.sidedata import Type as SideDataType

from .errors import CodecError
from .quality_map import SLOTS, QualityBlock, pack_blocks

MAX_CHAINS = 32
"""Chains kept for one picture size; there are a dozen useful sets of flags."""


class Aiming:
    """Passes pictures of one size through, with regions and flags attached."""

    def __init__(self, width: int, height: int) -> None:
        self._size = (width, height)
        self._chains: dict[int | None, av.filter.Graph] = {}

    def attach(
        self, frame: av.VideoFrame, blocks: list[QualityBlock], flags: int | None = None
    ) -> av.VideoFrame:
        """A frame that shares the picture of `frame` and carries `blocks` and libvpx `flags`.

        Raises CodecError when FFmpeg's filters are not what they were (see `_overwrite`).
        """
        chain = self._chains.get(flags)
        if chain is None:
            if len(self._chains) >= MAX_CHAINS:
                self._chains.clear()
            chain = self._chains[flags] = _chain(*self._size, flags)
        chain.vpush(frame)
        passed = chain.vpull()
        container = cast("SideDataContainer", passed.side_data)  # the stub knows one entry only
        _overwrite(container[SideDataType.REGIONS_OF_INTEREST], pack_blocks(blocks, SLOTS))
        return passed


def _overwrite(target: SideData, data: bytes) -> None:
    """Write into a frame's side data, which PyAV itself only reads."""
    if target.buffer_size != len(data):
        raise CodecError(f"{len(data)} bytes do not fit side data of {target.buffer_size}")
    ctypes.memmove(target.buffer_ptr, data, len(data))


def _chain(width: int, height: int, flags: int | None) -> av.filter.Graph:
    graph = av.filter.Graph()
    source = graph.add_buffer(
        width=width,
        height=height,
        format=av.VideoFormat("yuv420p", width, height),
        time_base=Fraction(1, 30),
    )
    chain = [source]
    if flags is not None:
        # libvpxenc.c takes VPX_EFLAG_* bits from this key, for VP9 as well in spite of its name.
        chain.append(graph.add("metadata", f"mode=add:key=vp8-flags:value={flags}"))
    chain += [graph.add("addroi", "0:0:16:16:0") for _ in range(SLOTS)]
    chain.append(graph.add("buffersink"))
    for one, other in itertools.pairwise(chain):
        one.link_to(other)
    graph.configure()
    return graph
