"""Whole transports over modelled links on a clock that computes: fast, and the same every time."""
