"""`python -m limen.cli` is the same as `limen`."""

from .main import main

main()
