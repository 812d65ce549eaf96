"""Which controller a session gets: the one whose settings it was given."""

from __future__ import annotations

from .base import Controller
from .delay import DelayController, DelaySettings
from .scream.controller import ScreamController
from .scream.settings import ScreamSettings

CongestionSettings = DelaySettings | ScreamSettings
CONTROLLERS = (DelaySettings, ScreamSettings)
"""The same, for looking at what came."""


def make_controller(settings: CongestionSettings) -> Controller:
    """A new controller for one session."""
    if isinstance(settings, ScreamSettings):
        return ScreamController(settings)
    return DelayController(settings)
