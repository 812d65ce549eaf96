"""What `limen bench codecs` measures: see `run`."""
