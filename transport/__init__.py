"""QUIC sessions, congestion control, wire format and the receiver's playout."""
