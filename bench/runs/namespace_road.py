"""The road through a link between two namespaces, with taps at both of its ends. Linux, root."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from ..link.lab.links import FAR, NamespaceLink, open_link
from ..link.lab.measure import Calibration, calibrate
from ..link.lab.namespace import Namespace
from ..link.lab.tap_launch import TapProcess
from ..link.profile import LinkProfile


class NamespaceRoad:
    """See roads.Road."""

    listen_host = "0.0.0.0"  # noqa: S104 - all there is in a namespace is the link

    def __init__(self, link: NamespaceLink, calibration: Calibration, tap: TapProcess) -> None:
        self._link = link
        self._calibration = calibration
        self._tap = tap
        self.backend: str = link.backend
        self.base_delay_ms: float | None = calibration.base_delay_ms
        self.near: Namespace | None = link.near
        self.far: Namespace | None = link.far

    def connect(self, listening: dict[str, Any]) -> dict[str, Any]:
        """See Road."""
        return {**listening, "host": FAR}

    def begin(self, at: float) -> None:
        """See Road."""
        self._link.start(at)
        self._tap.start(at)

    def finish(self) -> dict[str, Any]:
        """See Road: what the taps saw, with the backend's own words under `driver`."""
        seen = self._tap.stop()
        own = self._link.finish()
        return {**seen, "calibration": self._calibration.to_dict(), "driver": own}


@contextlib.contextmanager
def namespace_road(profile: LinkProfile, *, backend: str, seed: int) -> Iterator[NamespaceRoad]:
    """Open, calibrate and shape a link, and tap it. Raises LabError."""
    with open_link(profile, backend=backend) as link:
        calibration = calibrate(link)
        link.shape(profile, seed=seed)
        with TapProcess(link, profile, base_delay=calibration.base_delay_ms / 1e3) as tap:
            yield NamespaceRoad(link, calibration, tap)
