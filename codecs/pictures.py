"""Pictures in whatever form they come, brought into the one form encoders take: even yuv420p.

4:2:0 video halves the colour planes, so coded widths and heights are even. A picture with an odd
size is padded by repeating its last column or row; the true size travels beside the payload, and
a decoder that is told it cuts the padding off again. Rows in memory are longer than pictures are
wide (alignment), so planes are always read through their line size here, never as plain bytes.
"""

from __future__ import annotations

from typing import Any

import av
import numpy as np
from av.video.reformatter import ColorRange
from numpy.typing import NDArray

from .errors import CodecError

MIN_SIDE, MAX_SIDE = 16, 8192
"""Pixels: the sizes that the encoders here take."""
Picture = av.VideoFrame | NDArray[np.uint8]


def as_frame(picture: Picture) -> av.VideoFrame:
    """An `av.VideoFrame` for a frame or an rgb24 array of shape (height, width, 3), dtype uint8.

    Raises ValueError for another shape or type, or a size no encoder takes.
    """
    if isinstance(picture, av.VideoFrame):
        frame = picture
    else:
        array = np.asarray(picture)
        if array.ndim != 3 or array.shape[2] != 3 or array.dtype != np.uint8:
            raise ValueError(
                "a picture is an av.VideoFrame or a uint8 array of shape (height, width, 3), "
                f"got shape {array.shape} of {array.dtype}"
            )
        # Without a copy: one of 720p would hold the interpreter's lock for half a millisecond.
        frame = av.VideoFrame.from_numpy_buffer(np.ascontiguousarray(array), format="rgb24")
    if not (MIN_SIDE <= frame.width <= MAX_SIDE and MIN_SIDE <= frame.height <= MAX_SIDE):
        raise ValueError(
            f"a picture's sides are {MIN_SIDE}..{MAX_SIDE} pixels, got {frame.width}x{frame.height}"
        )
    return frame


def plane_rows(frame: av.VideoFrame, index: int) -> NDArray[np.uint8]:
    """One 8-bit plane as a writable view of shape (height, width), without alignment padding."""
    plane = frame.planes[index]
    rows: NDArray[Any] = np.frombuffer(plane, np.uint8)  # type: ignore[call-overload]  # a Buffer
    return rows.reshape(-1, plane.line_size)[: plane.height, : plane.width]


def to_even_yuv(frame: av.VideoFrame) -> av.VideoFrame:
    """The picture as limited-range yuv420p of even size; the caller's own frame where it is so."""
    name = frame.format.name
    if name != "yuv420p":
        try:
            frame = frame.reformat(format="yuv420p", dst_color_range=ColorRange.MPEG)
        except (ValueError, OSError) as problem:
            raise CodecError(f"cannot convert a {name} picture to yuv420p: {problem}") from problem
    width, height = frame.width, frame.height
    if width % 2 == 0 and height % 2 == 0:
        return frame
    even = av.VideoFrame(width + width % 2, height + height % 2, "yuv420p")
    for index in range(3):
        source, target = plane_rows(frame, index), plane_rows(even, index)
        rows, columns = source.shape
        target[:rows, :columns] = source
        target[:rows, columns:] = source[:, -1:]
        target[rows:] = target[rows - 1 : rows]
    even.colorspace, even.color_range = frame.colorspace, frame.color_range
    return even


def cut_to(frame: av.VideoFrame, width: int, height: int) -> av.VideoFrame:
    """The top left `width` × `height` of a yuv420p picture; the frame itself when it fits."""
    if (frame.width, frame.height) == (width, height):
        return frame
    if width > frame.width or height > frame.height:
        raise CodecError(
            f"a picture of {frame.width}x{frame.height} cannot be cut to {width}x{height}"
        )
    cut = av.VideoFrame(width, height, "yuv420p")
    for index in range(3):
        target = plane_rows(cut, index)
        target[:] = plane_rows(frame, index)[: target.shape[0], : target.shape[1]]
    cut.colorspace, cut.color_range = frame.colorspace, frame.color_range
    cut.pts = frame.pts
    return cut
