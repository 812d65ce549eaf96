"""Judges of playout: one stream of arrivals through several buffers, delay against damage."""
