"""docs/trace.md names exactly the events that the code traces."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_document_names_every_event_and_no_other() -> None:
    traced: set[str] = set()
    for path in (ROOT / "transport").rglob("*.py"):
        source = path.read_text(encoding="utf-8")
        traced |= set(re.findall(r"\btrace\(\s*\"(\w+)\"", source))
    document = (ROOT / "docs" / "trace.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^\| `(\w+)` \|", document, flags=re.MULTILINE))
    assert len(traced) >= 8
    assert named == traced
