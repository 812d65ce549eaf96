"""`python -m limen.bench.demo`: the same as `limen demo`."""

import typer

from ...cli.demo import demo

if __name__ == "__main__":
    typer.run(demo)
