"""What a whole program can do for the tick, and a library should not do behind its back.

Encoders run in threads. Between their long native calls, which release the interpreter's lock,
they hold it for moments of Python; a loop that wants it back waits for up to the switch interval,
5 ms by default. At half a millisecond the tick's lateness p99 fell from 0.84-1.34 ms to
0.65-0.69 ms (six runs in turn, 640×360 at 30 pictures a second beside one voice on a busy
two-core machine, `python -m limen.bench.soak`); at a tenth, beside more load, from 2.58, 2.62 and
2.89 to 1.20, 1.40 and 2.80 ms (three pairs of 20 s in turn).
"""

from __future__ import annotations

import gc
import sys

SWITCH_INTERVAL = 0.0001
"""Seconds. Much smaller costs throughput: threads would pass the lock around all the time."""


def tune_process() -> None:
    """Prepare this process for exact ticks; call it once, when everything is set up.

    Sets the interpreter's switch interval, and takes what lives now out of the reach of the
    garbage collector, whose full passes would otherwise stop the loop for milliseconds.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    gc.collect()
    gc.freeze()
