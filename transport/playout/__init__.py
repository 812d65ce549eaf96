"""Receiver playout: what arrives unevenly is heard and seen evenly, as early as it can be.

Nothing here reads a clock, opens a socket or knows a codec; see README.md for the parts.
"""
