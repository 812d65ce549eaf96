"""Link emulation, peers, metrics and reports."""
