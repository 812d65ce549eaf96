"""The examples run as they stand."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.realtime
def test_the_two_way_example_hears_what_was_said(tmp_path: Path) -> None:
    environment = {**os.environ, "LIMEN_DATA_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-W", "error", str(ROOT / "examples" / "two_way.py")],
        capture_output=True,
        text=True,
        timeout=30,
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    blocks, words = done.stdout.strip().split(" ", 1)
    assert words == "blocks of 20 ms heard"
    assert int(blocks) > 40
