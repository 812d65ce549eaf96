"""A picture's number, drawn into it: for peers that carry pictures and nothing beside them.

24 cells side by side along the bottom 16 rows, black or white: 16 bits of number, most significant
first, and 8 of CRC. Cells are shares of the width, so a picture that was scaled can still be read.
At 640 pixels a cell is 26 by 16, more than a macroblock, and survives whatever leaves a face
recognizable. These rows say nothing of a picture's quality and are left out of it, for every peer.
"""

from __future__ import annotations

import av
import numpy as np
from numpy.typing import NDArray

ROWS = 16
"""Rows at the bottom of a picture in its own size that the barcode covers."""
BITS = 16
CELLS = BITS + 8
BLACK, WHITE, GREY = 16, 235, 128
STRIPS = ((13, 3), (7, 2), (4, 1))
"""Rows from the bottom between which cells are read: in full size, at half and at a quarter."""

Luma = NDArray[np.uint8]


def stamp(frame: av.VideoFrame, index: int) -> av.VideoFrame:
    """A copy of the picture (yuv420p) with `index` in its bottom rows.

    Raises ValueError for a number that does not fit, or a picture too small to carry one.
    """
    if not 0 <= index < 1 << BITS:
        raise ValueError(f"a barcode holds 0 to {(1 << BITS) - 1}, got {index!r}")
    if frame.width < 8 * CELLS or frame.height < 4 * ROWS:
        raise ValueError(
            f"a picture with a barcode has at least {8 * CELLS}x{4 * ROWS} pixels, "
            f"got {frame.width}x{frame.height}"
        )
    source = frame if frame.format.name == "yuv420p" else frame.reformat(format="yuv420p")
    code = index << 8 | _crc(index)
    edges = _edges(frame.width)
    row = np.empty(frame.width, np.uint8)
    for cell in range(CELLS):
        bit = code >> (CELLS - 1 - cell) & 1
        row[edges[cell] : edges[cell + 1]] = WHITE if bit else BLACK
    width, height = frame.width, frame.height
    pixels = source.to_ndarray()
    pixels[height - ROWS : height] = row
    chroma = pixels[height:].reshape(2, height // 2, width // 2)
    chroma[:, height // 2 - ROWS // 2 :] = GREY
    made = av.VideoFrame.from_ndarray(pixels, format="yuv420p")
    if frame.pts is not None:
        made.pts, made.time_base = frame.pts, frame.time_base
    return made


def read(luma: Luma) -> int | None:
    """The number in a picture's luma (height, width), whatever its scale; None if illegible."""
    height, width = luma.shape
    edges = _edges(width)
    for high, low in STRIPS:
        strip = luma[max(0, height - high) : height - low].mean(axis=0)
        code = 0
        for cell in range(CELLS):
            left, right = int(edges[cell]), int(edges[cell + 1])
            rim = (right - left) // 4
            code = code << 1 | int(strip[left + rim : right - rim].mean() > GREY)
        index = code >> 8
        if code & 0xFF == _crc(index):
            return index
    return None


def _edges(width: int) -> NDArray[np.int64]:
    edges: NDArray[np.int64] = np.arange(CELLS + 1, dtype=np.int64) * width // CELLS
    return edges


def _crc(index: int) -> int:
    """CRC-8 (x⁸ + x² + x + 1) of the number, from 0xff so that blackness is no number."""
    value = 0xFF
    for byte in index.to_bytes(2, "big"):
        value ^= byte
        for _ in range(8):
            value = (value << 1 ^ 0x07) & 0xFF if value & 0x80 else value << 1
    return value
