"""QUIC beneath the sessions: the adapter to aioquic, TLS, the UDP driver and the exact timer."""
