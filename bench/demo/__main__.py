"""`python -m limen.bench.demo`: the same as `limen demo`."""

import sys

from limen.cli.main import run

if __name__ == "__main__":
    sys.exit(run(["demo", *sys.argv[1:]]))
