"""`limen recv`: listens, and takes each sender that comes; one alone, or many at a time.

```
 sender ══> Session ─> Reception ─┬─> Recorder ─thread─> DIR/received.mp4
            (per sender)          └─> RawOutput ─thread─> pipes
```
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..scheduler.sources.gaze import GazeSample
from ..transport.api import Server, serve
from ..transport.quic.tls import Certificate, kept_development_fingerprint
from ..transport.session import Session
from .failures import CommandError
from .parsing import Address
from .raw_output import RawOutput
from .reception import Reception
from .recorder import Recorder
from .running import in_thread
from .terminal import Terminal, rate_text

STEM = "received"
LOST_GRACE = 30.0
"""Seconds to wait for a sender that was lost to come back: as long as it tries to."""
TICK = 0.1


@dataclass(frozen=True, slots=True)
class RecvOptions:
    """What `limen recv` was told, checked."""

    listen: Address
    out: Path | None = None
    certificate: Certificate | None = None
    raw_video: str | None = None
    raw_audio: str | None = None
    keep: bool = False
    duration: float | None = None
    gaze: Sequence[GazeSample] = ()


class Receiver:
    """One run of `limen recv`."""

    def __init__(self, options: RecvOptions, terminal: Terminal) -> None:
        self._options = options
        self._terminal = terminal
        self._loop = asyncio.get_running_loop()
        self._live: dict[int, Reception] = {}
        self._finishing: set[asyncio.Task[None]] = set()
        self._count = 0
        self._finished = 0
        self._lost_at: float | None = None
        self._lost_why = ""
        self._record_problem: str | None = None
        self._first_frame: float | None = None
        self._raw: RawOutput | None = None
        self._rates: dict[int, tuple[float, int, float]] = {}

    async def run(self) -> None:
        """Serve until the first sender has finished, the duration is over, or for ever."""
        options = self._options
        if options.out is not None:
            make_folder(options.out)
        if options.raw_video is not None or options.raw_audio is not None:
            self._raw = RawOutput(options.raw_video, options.raw_audio, self._on_raw_problem)
        try:
            async with serve(
                self._handle,
                options.listen.host,
                options.listen.port,
                certificate=options.certificate,
            ) as server:
                self._greet(server)
                async with self._terminal.status(self._describe):
                    try:
                        await self._until_done()
                    finally:
                        for reception in list(self._live.values()):
                            await reception.session.close(self._parting())
        finally:
            # Also after Ctrl-C: the last recordings are finished before this command ends.
            while self._finishing:
                await asyncio.wait(self._finishing)
            if self._raw is not None:
                await in_thread(self._raw.close, "raw-close")
        if self._raw is not None and self._raw.problem is not None:
            raise CommandError(self._raw.problem)
        if self._record_problem is not None:
            raise CommandError(self._record_problem)

    async def _until_done(self) -> None:
        options = self._options
        while True:
            await asyncio.sleep(TICK)
            now = time.monotonic()
            for reception in self._live.values():
                if self._first_frame is None:
                    self._first_frame = reception.started
            if (
                options.duration is not None
                and self._first_frame is not None
                and now - self._first_frame >= options.duration
            ):
                return
            if self._raw is not None and self._raw_gone(self._raw):
                return
            if options.keep or self._live or self._finishing:
                continue
            if self._finished:
                return
            if self._lost_at is not None and now - self._lost_at > LOST_GRACE:
                raise CommandError(f"the sender did not come back: {self._lost_why}")

    def _raw_gone(self, raw: RawOutput) -> bool:
        return self._options.out is None and all(pipe.closed.is_set() for pipe in raw.pipes)

    def _parting(self) -> str:
        done = self._options.duration is not None and self._first_frame is not None
        return "the receiver has what it wanted" if done else "the receiver was stopped"

    # -- sessions

    async def _handle(self, session: Session) -> None:
        self._count += 1
        number = self._count
        options = self._options
        recorder = None if options.out is None else Recorder(options.out, STEM, self._note)
        reception = Reception(
            number,
            session,
            self._terminal,
            recorder=recorder,
            raw=self._raw,
            gaze=options.gaze,
        )
        self._live[number] = reception
        self._lost_at = None
        self._terminal.say(f"{reception.label}a sender has come", style="green")
        try:
            await reception.run()
        finally:
            del self._live[number]
            failure = session.failure
            finish = self._loop.create_task(self._finish(reception, failure))
            self._finishing.add(finish)
            finish.add_done_callback(self._finishing.discard)

    async def _finish(self, reception: Reception, failure: str | None) -> None:
        """After a session's end, whatever it was: the file and the summary."""
        reason = failure
        if reason is None and reception.session.is_closed:
            reason = reception.session.stats()["closed"]
        await in_thread(reception.finish, "finish")
        label = reception.label
        if failure is not None:
            self._lost_at, self._lost_why = time.monotonic(), failure
            hint = "" if self._options.keep else f"; waiting {LOST_GRACE:g} s for it to come back"
            self._terminal.note(f"{label}the sender was lost: {failure}{hint}")
        else:
            self._finished += 1
            self._terminal.say(f"{label}the sender has finished{f' ({reason})' if reason else ''}")
        if reception.views:
            self._terminal.table(
                "received",
                ["track", "frames", "disturbed", "lost", "delay p50", "p95"],
                [view.row("") for view in reception.views],
            )
        recorder = reception.recorder
        if recorder is not None and recorder.problem is not None:
            self._record_problem = recorder.problem
        elif recorder is not None:
            if recorder.seconds == 0.0:
                self._terminal.note(f"{label}nothing came, nothing was recorded")
                return
            left_out = f"; {recorder.left_out} pictures left out" if recorder.left_out else ""
            for path in recorder.paths:
                self._terminal.say(f"{label}wrote {path} ({recorder.seconds:.1f} s{left_out})")

    # -- what is told

    def _on_raw_problem(self, text: str) -> None:
        """From any thread. Where something else goes on, it is said now, too."""
        if self._options.out is not None or None not in (
            self._options.raw_video,
            self._options.raw_audio,
        ):
            self._note(text)

    def _note(self, text: str) -> None:
        """From any thread."""
        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._terminal.note, text)

    def _greet(self, server: Server) -> None:
        address = Address(self._options.listen.host, server.port)
        shown = Address("THIS-MACHINE", server.port) if address.is_any else address
        local = address.is_loopback and server.fingerprint == kept_development_fingerprint()
        pin = "" if local else f" --fingerprint {server.fingerprint}"
        self._terminal.say(f"listening on {address}", style="bold")
        self._terminal.say(f"certificate SHA-256 {server.fingerprint}", style="dim")
        self._terminal.say(f"send with: limen send FILE --to {shown}{pin}")

    def _describe(self) -> str | None:
        if not self._live:
            return "waiting for a sender" if not self._finishing else "writing the file"
        return " · ".join(
            f"{reception.describe()} · {self._rate(number, reception)}"
            for number, reception in self._live.items()
        )

    def _rate(self, number: int, reception: Reception) -> str:
        stats: dict[str, Any] = reception.session.stats()
        now = time.monotonic()
        bytes_in = int(stats["sockets"].get("bytes_in", 0))
        then, before, rate = self._rates.get(number, (now, bytes_in, 0.0))
        if now - then >= 1.0:
            rate = (bytes_in - before) * 8 / (now - then)
            self._rates[number] = (now, bytes_in, rate)
        elif number not in self._rates:
            self._rates[number] = (now, bytes_in, 0.0)
        arrived = sum(int(s.get("objects", 0)) for s in stats["subscribed"].values())
        lost = sum(int(s.get("lost", 0)) for s in stats["subscribed"].values())
        share = lost / max(1, arrived + lost) * 100
        return f"{rate_text(rate)} · loss {share:.1f} %"


def make_folder(path: Path) -> None:
    """Have the folder for recordings. Raises CommandError when that cannot be."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except FileExistsError:
        raise CommandError(f"--out takes a folder, and {path} is a file", code=2) from None
    except OSError as error:
        raise CommandError(f"cannot make the folder {path}: {error.strerror}") from None


async def receive(options: RecvOptions, terminal: Terminal) -> None:
    """Run `limen recv`."""
    await Receiver(options, terminal).run()
