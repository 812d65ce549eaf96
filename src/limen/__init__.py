"""limen: real-time media over QUIC that spends a scarce link on what matters at this moment."""

__version__ = "0.1.0"
