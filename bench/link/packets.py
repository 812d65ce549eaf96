"""Just enough of IPv4 and IPv6 headers to read and set congestion marks (ECN, RFC 3168)."""

from __future__ import annotations

ECN_MASK = 0b11
CONGESTION_EXPERIENCED = 0b11


def carries_ecn(packet: bytes) -> bool:
    """Whether an IP packet may be marked: its sender declared it ECN-capable."""
    if len(packet) < 20:
        return False
    version = packet[0] >> 4
    if version == 4:
        return bool(packet[1] & ECN_MASK)
    return version == 6 and bool((packet[1] >> 4) & ECN_MASK)


def mark_congestion(packet: bytes) -> bytes:
    """The IP packet with its mark set; IPv4's header checksum is kept right (RFC 1624)."""
    marked = bytearray(packet)
    version = marked[0] >> 4
    if version == 6:
        marked[1] |= CONGESTION_EXPERIENCED << 4
    elif version == 4:
        before = int.from_bytes(marked[0:2], "big")
        marked[1] |= CONGESTION_EXPERIENCED
        after = int.from_bytes(marked[0:2], "big")
        total = (~int.from_bytes(marked[10:12], "big") & 0xFFFF) + (~before & 0xFFFF) + after
        total = (total & 0xFFFF) + (total >> 16)
        total = (total & 0xFFFF) + (total >> 16)
        marked[10:12] = (~total & 0xFFFF).to_bytes(2, "big")
    return bytes(marked)
