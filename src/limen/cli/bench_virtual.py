"""`limen bench virtual`: the transport over profiles on a clock that computes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

import typer

from .failures import usage


def virtual(  # noqa: PLR0917 - a command line
    profiles: Annotated[
        list[str], typer.Argument(help="Names or .toml files; rfc8867 is all of its scenarios.")
    ],
    flows: Annotated[
        int | None, typer.Option(min=1, max=20, help="Equal flows; RFC 8867's own without it.")
    ] = None,
    seconds: Annotated[
        float | None, typer.Option(min=3, max=600, help="Of media; the scenario's own without it.")
    ] = None,
    seeds: Annotated[int, typer.Option(min=1, max=100, help="How many, from 1 on.")] = 1,
    congestion: Annotated[str, typer.Option(help="delay or scream.")] = "delay",
    json_out: Annotated[
        Path | None, typer.Option("--json", help="Append a JSON line for each run to this file.")
    ] = None,
) -> None:
    """Run the real transport over modelled links in virtual time: the same every time."""
    from ..bench.link.profile import ProfileError  # noqa: PLC0415
    from ..bench.virtual.scenario import (  # noqa: PLC0415 - not for `limen --help`
        CONTROLLERS,
        RFC8867,
        run_scenario,
        scenario_for,
    )

    if congestion not in CONTROLLERS:
        raise usage(f"--congestion is {' or '.join(CONTROLLERS)}, got {congestion!r}")
    names = [n for p in profiles for n in (RFC8867 if p == "rfc8867" else (p,))]
    table: list[tuple[str, ...]] = [HEADINGS]
    for name in names:
        try:
            scenario = scenario_for(name, seconds=seconds, flows=flows)
        except ProfileError as error:
            raise usage(str(error)) from error
        for seed in range(1, seeds + 1):
            typer.echo(f"{name}, seed {seed}: {scenario.seconds:g} s of media", err=True)
            try:
                result = run_scenario(name, scenario, seed=seed, congestion=congestion)
            except ProfileError as error:
                raise usage(str(error)) from error
            table += _rows(result)
            if json_out is not None:
                json_out.parent.mkdir(parents=True, exist_ok=True)
                with json_out.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(result) + "\n")
    widths = [max(len(row[column]) for row in table) for column in range(len(HEADINGS))]
    for row in table:
        cells = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        typer.echo("  ".join((row[0].ljust(widths[0]), *cells)).rstrip())
    typer.echo(
        "\nms; voice: capture to arrival. back: seconds after each step down until the queue"
    )
    typer.echo("stays below 100 ms. took: seconds of computing.")


HEADINGS = (
    "profile",
    "seed",
    "link used",
    "queue p95",
    "back",
    "flow",
    "kbit/s",
    "voice p50",
    "p95",
    "std",
    "on time",
    "took",
)


def _rows(result: dict[str, Any]) -> list[tuple[str, ...]]:
    back = " ".join("never" if s is None else f"{s:.1f}" for s in result["recovery_s"]) or "-"
    used = result["utilization"]
    head = (
        result["profile"],
        str(result["seed"]),
        "-" if used is None else f"{used:.1%}",
        f"{result['queue_p95_ms']:.0f}",
        back,
    )
    rows = []
    for number, flow in enumerate(result["flows"], 1):
        rows.append(
            (
                *(head if number == 1 else ("", "", "", "", "")),
                str(number),
                f"{flow['rate_bps'] / 1e3:.0f}",
                *(_ms(flow[key]) for key in ("vital_p50_ms", "vital_p95_ms", "vital_std_ms")),
                "-" if flow["vital_on_time"] is None else f"{flow['vital_on_time']:.1%}",
                f"{result['took_s']:.1f}" if number == 1 else "",
            )
        )
    return rows


def _ms(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}"
