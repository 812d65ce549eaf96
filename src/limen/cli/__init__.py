"""The `limen` command line."""
