"""Congestion control: how many bytes may be on their way, and how fast they leave."""
