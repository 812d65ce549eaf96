"""Who makes the runs of a matrix: this machine, one after another, or many machines through Dask.

Runs that are compared with one another (the peers over one link, with one scene and seed) stay
together on one machine, in turn; different links and seeds may go to different machines. A machine
makes one run at a time: two at once would measure each other. Profiles, jobs and lines are the
same with every engine, and each line says on which machine it was made.

For many machines, start a scheduler and on each machine one worker with one thread:

    dask scheduler
    dask worker tcp://SCHEDULER:8786 --nthreads 1
    limen bench run all --engine dask --cluster tcp://SCHEDULER:8786

limen, and traces or profiles given as files, must be at the same place on all of them.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Any, Protocol

from .attempt import Made, attempt, make_apart
from .job import Job, groups_of
from .once import Live

Begin = Callable[[Job], None]
"""Told that a job is being made now."""


class EngineError(RuntimeError):
    """An engine cannot be used; the text says why and what to do."""


class Engine(Protocol):
    """Makes jobs."""

    def run(self, jobs: Sequence[Job], *, begin: Begin, live: Live) -> Generator[Made]:
        """Make the jobs and yield each as it is done; closing the iterator ends what runs."""
        ...


class LocalEngine:
    """This machine, one run at a time, in order."""

    def __init__(self, *, keep: Path | None = None, make: Callable[..., Made] = attempt) -> None:
        self._keep = keep
        self._make = make

    def run(self, jobs: Sequence[Job], *, begin: Begin, live: Live) -> Generator[Made]:
        """See Engine."""
        for job in jobs:
            begin(job)
            yield self._make(job, keep=self._keep, live=live)


class DaskEngine:
    """The machines of a Dask cluster; without an address, this one through Dask."""

    def __init__(self, address: str | None = None) -> None:
        """Raises EngineError when Dask is not installed."""
        self._address = address
        try:
            import distributed  # noqa: PLC0415 - an extra
        except ModuleNotFoundError:
            raise EngineError(
                "the engine dask is not installed: pip install 'limen[spread]'"
            ) from None
        self._distributed: Any = distributed
        logging.getLogger("distributed").setLevel(logging.ERROR)  # it logs its every step

    def run(self, jobs: Sequence[Job], *, begin: Begin, live: Live) -> Generator[Made]:
        """See Engine; `live` is not told anything, since runs are elsewhere."""
        del live
        groups = groups_of(jobs)
        with contextlib.ExitStack() as stack:
            client = stack.enter_context(self._client(stack))
            workers = self._workers(client)
            futures = {}
            for group in groups:
                future = client.submit(
                    make_apart,
                    [job.to_dict() for job in group],
                    workers=workers,
                    pure=False,
                    retries=0,
                )
                futures[future] = group
                for job in group:
                    begin(job)
            for future in self._distributed.as_completed(futures):
                for job, (line, trace) in zip(futures[future], future.result(), strict=True):
                    yield Made(job, line, trace)

    def _client(self, stack: contextlib.ExitStack) -> Any:
        if self._address is None:
            cluster = stack.enter_context(
                self._distributed.LocalCluster(
                    n_workers=1, threads_per_worker=1, dashboard_address="127.0.0.1:0"
                )
            )
            return self._distributed.Client(cluster)
        try:
            return self._distributed.Client(self._address, timeout=20)
        except (OSError, ValueError) as error:
            raise EngineError(f"no Dask scheduler answers at {self._address}: {error}") from error

    def _workers(self, client: Any) -> list[str]:
        """One worker of each machine; a machine must not make two runs at once."""
        known = client.scheduler_info(n_workers=-1)["workers"]
        if not known:
            raise EngineError(
                f"the Dask scheduler at {self._address} has no worker; on each machine start "
                f"`dask worker {self._address} --nthreads 1`"
            )
        chosen: dict[str, str] = {}
        for address, worker in known.items():
            if worker["nthreads"] != 1:
                raise EngineError(
                    f"the Dask worker {address} would make {worker['nthreads']} runs at once; "
                    "start it with --nthreads 1"
                )
            chosen.setdefault(worker["host"], address)
        return list(chosen.values())
