"""What WebRTC peers share: whose picture and sound is which, and small repairs to descriptions.

Ends are matched by the order of their media sections: pictures first, then sounds, both in the
scene's order.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from .parent import Parent


async def told(parent: Parent, key: str) -> Any:
    """The value of the parent's next message with `key`; others are passed over."""
    while True:
        message = await parent.receive()
        if key in message:
            return message[key]


def on_the_link(sdp: str) -> str:
    """The description with IPv4 UDP addresses only: one path, with the packet sizes of the others.

    Raises ValueError when none is left.
    """
    lines = []
    for line in sdp.splitlines():
        if line.startswith("a=candidate:"):
            parts = line.split()
            if parts[2].lower() != "udp" or ":" in parts[4]:
                continue
        lines.append(line)
    if not any(line.startswith("a=candidate:") for line in lines):
        raise ValueError("WebRTC found no IPv4 address to be reached at")
    return "\r\n".join(lines) + "\r\n"


def with_voice_rate(sdp: str, bitrate_bps: int) -> str:
    """The answer, asking for Opus at no more than this rate (RFC 7587, 6.1)."""
    payload = re.search(r"^a=rtpmap:(\d+) opus/48000", sdp, re.MULTILINE)
    if payload is None:
        return sdp
    start = f"a=fmtp:{payload.group(1)} "
    wish = f"maxaveragebitrate={bitrate_bps}"
    if start in sdp:
        return sdp.replace(start, f"{start}{wish};")
    return sdp.replace(payload.group(0) + "/2", f"{payload.group(0)}/2\r\n{start}{wish}")


Rows = Iterable[Mapping[str, Any]]


def receiver_figures(before: Rows, after: Rows, *, tracks: list[str]) -> dict[str, Any]:
    """What the receiver counted between two reports, by track and over all."""
    first = {row["id"]: row for row in before}
    codecs = {row["id"]: row["mimeType"] for row in after if row["type"] == "codec"}
    figures: dict[str, Any] = {}
    made_up = heard = 0
    for row in after:
        if row["type"] != "inbound-rtp":
            continue
        earlier = first.get(row["id"], {})

        def grown(key: str, row: Any = row, earlier: Any = earlier) -> Any:
            return row.get(key, 0) - earlier.get(key, 0)

        emitted = grown("jitterBufferEmittedCount")
        entry: dict[str, Any] = {
            "codec": codecs.get(row.get("codecId", "")),
            "bytes": grown("bytesReceived"),
            "packets_lost": grown("packetsLost"),
            "jitter_buffer_ms": (
                round(1e3 * grown("jitterBufferDelay") / emitted, 1) if emitted else None
            ),
        }
        if row["kind"] == "video":
            entry |= {
                "decoded": grown("framesDecoded"),
                "dropped": grown("framesDropped"),
                "freezes": grown("freezeCount"),
                "freezes_s": round(grown("totalFreezesDuration"), 3),
                "nacks": grown("nackCount"),
                "keyframe_requests": grown("pliCount"),
            }
        else:
            concealed = grown("concealedSamples") - grown("silentConcealedSamples")
            samples = grown("totalSamplesReceived")
            made_up, heard = made_up + concealed, heard + samples
            entry |= {
                "concealed_samples": concealed,
                "samples": samples,
                "slowed_samples": grown("insertedSamplesForDeceleration"),
                "hastened_samples": grown("removedSamplesForAcceleration"),
            }
        figures[tracks[int(row["mid"])]] = entry
    return {
        "tracks": figures,
        "concealed_share": round(made_up / heard, 5) if heard else None,
    }


def sender_figures(rows: Rows, *, tracks: list[str]) -> dict[str, Any]:
    """What the sender counted, warm-up included, by track."""
    figures = {}
    for row in rows:
        if row["type"] == "outbound-rtp":
            figures[tracks[int(row["mid"])]] = {
                "bytes": row.get("bytesSent"),
                "encoded": row.get("framesEncoded"),
                "size": [row.get("frameWidth"), row.get("frameHeight")],
                "limited_by": row.get("qualityLimitationReason"),
                "repeated_packets": row.get("retransmittedPacketsSent"),
            }
    return figures
