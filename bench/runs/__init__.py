"""Runs: peers over links, one after the other, and what came of them."""
