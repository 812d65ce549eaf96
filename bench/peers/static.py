"""limen's transport with fixed priorities and no tags: what meaning adds is the distance to limen.

Sound before pictures, by the kinds' own importance; nobody says what is spoken or looked at. All
else is `limen.py`: packets, scheduler, congestion control, rates, playout.
"""

from __future__ import annotations

import functools

from . import limen
from .program import run_peer

send = functools.partial(limen.send, tags=False)
receive = functools.partial(limen.receive, tags=False)

if __name__ == "__main__":
    run_peer(__doc__ or "", send=send, receive=receive)
