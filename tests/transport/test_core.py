"""Two cores in virtual time."""

from __future__ import annotations
