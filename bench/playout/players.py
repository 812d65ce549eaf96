"""The real buffer and a fixed one, driven in virtual time."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ...codecs.opus import OpusDecoder
from ...transport.playout.jitter import AudioArrival, JitterBuffer, JitterSettings
from ...transport.playout.sound import BLOCK, PERIOD
from .outcome import Outcome
from .speech import FRAME, FRAME_S, RATE, Sound, Speech

Floats = NDArray[np.float64]

DRAIN = 3.0
"""Seconds after the last arrival for which blocks are taken."""


class WatchedDecoder:
    """Decodes with Opus, or not at all when only delays matter, and notes which objects it saw."""

    def __init__(self, speech: Speech, *, with_sound: bool) -> None:
        self._decoder = OpusDecoder() if with_sound else None
        self._sound = speech.sound
        self._numbers = {id(payload): i for i, payload in enumerate(speech.payloads)}
        self.heard = np.zeros(len(speech), dtype=np.bool_)

    def decode(self, payload: bytes) -> Sound:
        """See AudioDecoder."""
        number = self._numbers[id(payload)]
        self.heard[number] = True
        if self._decoder is not None:
            return self._decoder.decode(payload)
        return self._sound[number * FRAME : (number + 1) * FRAME, None]

    def conceal(self, n_samples: int) -> Sound:
        """See AudioDecoder."""
        if self._decoder is not None:
            return self._decoder.conceal(n_samples)
        return np.zeros((n_samples, 1), dtype=np.float32)

    def repair(self, next_payload: bytes, n_samples: int) -> Sound:
        """See AudioDecoder."""
        number = self._numbers[id(next_payload)] - 1
        if self._decoder is not None:
            if self._decoder.can_repair(next_payload):
                self.heard[number] = True
            return self._decoder.repair(next_payload, n_samples)
        return np.zeros((n_samples, 1), dtype=np.float32)


def distinct(speech: Speech) -> Speech:
    """The same talk with every payload an object of its own, so that each can be told apart."""
    return replace(speech, payloads=[bytes(bytearray(p)) for p in speech.payloads])


def play_limen(
    speech: Speech,
    arrivals: Floats,
    *,
    settings: JitterSettings | None = None,
    with_sound: bool = True,
    name: str = "limen",
) -> Outcome:
    """Play through `JitterBuffer` itself."""
    decoder = WatchedDecoder(speech, with_sound=with_sound)
    buffer = JitterBuffer(decoder, settings, channels=1)
    outcome = Outcome(name, PERIOD, decoder.heard)
    order = [int(i) for i in np.argsort(arrivals, kind="stable") if np.isfinite(arrivals[i])]
    stop = float(np.nanmax(arrivals)) + DRAIN
    done = 0
    before = 0
    started = time.process_time()
    while True:
        due = buffer.next_time()
        number = order[done] if done < len(order) else -1
        arrives = float(arrivals[number]) if number >= 0 else float("inf")
        if due is not None and due < arrives:
            if due > stop:
                break
            block = buffer.next_frame(now=due)
            stats = buffer.stats()
            made = stats.concealed_samples + stats.silent_samples
            outcome.ends.append(due + PERIOD)
            outcome.captured.append(np.nan if block.captured is None else block.captured)
            outcome.made_up.append((made - before) / RATE)
            outcome.stretched.append(block.kind == "stretched")
            outcome.sound.append(block.samples[:, 0])
            before = made
            continue
        if number < 0:
            break
        done += 1
        buffer.insert(
            AudioArrival(
                sequence=number,
                captured=(number + 1) * FRAME_S,
                duration=FRAME_S,
                payload=speech.payloads[number],
                importance=float(speech.importance[number]),
                silence=bool(speech.silence[number]),
            ),
            now=arrives,
        )
    outcome.cpu_s = time.process_time() - started
    return outcome


def play_fixed(
    speech: Speech, arrivals: Floats, *, delay_s: float, with_sound: bool = True
) -> Outcome:
    """A buffer that plays everything `delay_s` after the fastest arrival and drops what is late."""
    decoder = WatchedDecoder(speech, with_sound=with_sound)
    captured = (np.arange(len(speech)) + 1) * FRAME_S
    floor = float(np.nanmin(arrivals - captured))
    outcome = Outcome(f"fixed {1000 * delay_s:.0f} ms", FRAME_S, decoder.heard)
    started = time.process_time()
    for number, payload in enumerate(speech.payloads):
        at = captured[number] + floor + delay_s
        there = bool(arrivals[number] <= at)
        samples = decoder.decode(payload) if there else decoder.conceal(BLOCK)
        outcome.ends.append(at + FRAME_S)
        outcome.captured.append(float(captured[number]))
        outcome.made_up.append(0.0 if there else FRAME_S)
        outcome.stretched.append(False)
        outcome.sound.append(samples[:, 0])
    outcome.cpu_s = time.process_time() - started
    return outcome
