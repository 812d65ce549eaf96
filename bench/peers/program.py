"""The main function that all peers share: `python -m limen.bench.peers.NAME send|receive PLAN`."""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from ...transport.tuning import tune_process
from .capture import wait_until
from .parent import Parent
from .plan import RunPlan
from .recorder import LiveDelays

Role = Callable[[RunPlan, Path, Parent], Awaitable[None]]
LIVE_INTERVAL = 0.5
"""Seconds between figures for whoever watches."""


def run_peer(description: str, *, send: Role, receive: Role) -> None:
    """Run one end of a run in this process."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("role", choices=("send", "receive"))
    parser.add_argument("plan", type=Path, help="a run's plan (JSON); results go to its folder")
    options = parser.parse_args()
    plan = RunPlan.read(options.plan)
    role = send if options.role == "send" else receive

    async def main() -> None:
        tune_process()
        parent = Parent()
        await role(plan, options.plan.parent, parent)
        parent.tell(done=True)

    asyncio.run(main())


async def report_live(live: LiveDelays, parent: Parent, *, start: float, end: float) -> None:
    """Tell the parent the delays of every half second between two moments."""
    moment = start
    while moment < end:
        moment += LIVE_INTERVAL
        await wait_until(min(moment, end))
        parent.tell(live=live.take(), at=time.monotonic() - start)
