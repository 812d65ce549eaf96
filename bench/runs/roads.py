"""What carries a run's packets: the UDP proxy, or a link between two namespaces.

One rule for link time on every road: it begins when `begin` says so, a plan's lead before the
capture, and until then the link has the rate it begins with. So a peer that needs ten seconds to
set itself up meets the same profile as one that needs a tenth.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from ..link.launch import ProxyProcess
from ..link.profile import load_profile
from ..peers.plan import RunPlan
from ..peers.registry import Peer
from .ends import RunError

if TYPE_CHECKING:
    from ..link.lab.namespace import Namespace

UDP = "udp"
AUTO = "auto"


class Road(Protocol):
    """A link and the two places at its ends."""

    backend: str
    """`udp`, `tun`, `uml` or `kernel`."""
    base_delay_ms: float | None
    """Median one-way delay of the bare link, measured before the run."""
    near: Namespace | None
    """Where the sender's process runs; None: here."""
    far: Namespace | None
    listen_host: str
    """Where an end opens its ports."""

    def connect(self, listening: dict[str, Any]) -> dict[str, Any]:
        """What the sender is told of a receiver that said `listening`."""
        ...

    def begin(self, at: float) -> None:
        """Link time 0 is `at` on the monotonic clock."""
        ...

    def finish(self) -> dict[str, Any]:
        """End it; what the link saw (layout in bench/README.md)."""
        ...


@contextlib.contextmanager
def open_road(
    peer: Peer, plan: RunPlan, *, profile: str | Path, backend: str, trace: Path | None = None
) -> Iterator[Road]:
    """The road for a peer and a profile, calibrated and shaped. Leaving it ends everything.

    `backend`: `udp`, `tun`, `uml`, `kernel`, or `auto`: real netem when it can be had and can do
    the profile, else `tun`, else `udp` if the peer goes through a proxy. Raises RunError with the
    reason when there is no road; ProfileError, ProxyError, LabError.
    """
    # The profile's errors come first, whatever the backend.
    loaded = load_profile(profile, duration=plan.link_duration, trace=trace)
    reason = None
    if backend != UDP:
        from ..link.lab.namespace import LabError, why_not  # noqa: PLC0415 - not on all systems

        reason = why_not()
        if reason is None:
            from ..link.lab.backends import choose_backend  # noqa: PLC0415 - needs Linux
            from .namespace_road import namespace_road  # noqa: PLC0415 - needs Linux

            try:
                chosen = choose_backend(loaded, backend)
            except LabError as error:
                reason = str(error)
            else:
                with namespace_road(loaded, backend=chosen, seed=plan.seed) as road:
                    yield road
                return
        if backend != AUTO:
            raise RunError(f"backend {backend}: {reason}")
    if peer.needs_namespaces:
        why = f": {reason}" if reason else "; give another backend than udp"
        raise RunError(f"{peer.name} needs a link between two namespaces{why}")
    with contextlib.closing(UdpRoad(plan, profile, trace)) as udp:
        yield udp


class UdpRoad:
    """Both ends here, and the proxy between them."""

    backend = UDP
    near: Namespace | None = None
    far: Namespace | None = None
    listen_host = "127.0.0.1"

    def __init__(self, plan: RunPlan, profile: str | Path, trace: Path | None) -> None:
        self._plan = plan
        self._profile = profile
        self._trace = trace
        self._proxy: ProxyProcess | None = None
        self.base_delay_ms: float | None = None

    def connect(self, listening: dict[str, Any]) -> dict[str, Any]:
        """See Road."""
        if "port" not in listening:
            raise RunError("the receiver named no port, which the UDP proxy needs")
        self._proxy = ProxyProcess(
            self._profile,
            target=(self.listen_host, int(listening["port"])),
            duration=self._plan.link_duration,
            seed=self._plan.seed,
            held=True,
            trace=self._trace,
        )
        return {**listening, "host": "127.0.0.1", "port": self._proxy.port}

    def begin(self, at: float) -> None:
        """See Road."""
        if self._proxy is not None:
            self._proxy.start(at)

    def finish(self) -> dict[str, Any]:
        """See Road."""
        return {} if self._proxy is None else self._proxy.stop()

    def close(self) -> None:
        """End the proxy."""
        if self._proxy is not None:
            self._proxy.__exit__(None, None, None)
