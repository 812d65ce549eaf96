"""The README tells the truth: its example is the file that runs, its commands run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
LIMEN = [sys.executable, "-m", "limen.cli"]


def blocks(language: str) -> list[str]:
    """The fenced code blocks of one language."""
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


def shown_commands() -> list[str]:
    """Every `limen …` line in the README's shell blocks, comments off."""
    lines = [line.split("#")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith("limen ")]


def code_lines(text: str) -> list[str]:
    """Lines that are neither blank nor the module's docstring."""
    without = re.sub(r'^""".*?"""\n', "", text, flags=re.DOTALL)
    return [line for line in without.splitlines() if line.strip()]


def test_the_example_is_the_file_that_runs_and_has_at_most_20_lines() -> None:
    (shown,) = blocks("python")
    runnable = (ROOT / "examples" / "two_way.py").read_text(encoding="utf-8")
    assert code_lines(shown) == code_lines(runnable)
    assert len(code_lines(shown)) <= 20


def test_every_link_and_picture_is_there() -> None:
    assert re.search(r"!\[[^\]]+\]\(docs/images/", README), "README.md leads with no picture"
    places = ["transport", "scheduler", "codecs", "bench", "docs", "src"]
    pages = [*ROOT.glob("*.md"), *(p for place in places for p in (ROOT / place).rglob("*.md"))]
    assert len(pages) > 8
    for page in pages:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), f"{page} links to {target}, not there"


@pytest.mark.realtime
def test_the_shown_commands_run(tmp_path: Path) -> None:
    """As shown, but in a scratch folder, on a generated file, and shortened."""
    commands = shown_commands()
    assert {shlex.split(command)[1] for command in commands} >= {"recv", "send", "samples", "demo"}
    environment = {**os.environ, "LIMEN_DATA_DIR": str(tmp_path / "data")}

    def start(command: str, *more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*LIMEN, *shlex.split(command)[1:], *more],
            cwd=tmp_path,
            env=environment,
            text=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )

    (receive,) = [c for c in commands if c.startswith("limen recv")]
    (send,) = [c for c in commands if c.startswith("limen send")]
    send = send.replace("talk.mp4", "lavfi:testsrc2=size=320x240:rate=25")
    port = str(20_000 + os.getpid() % 20_000)
    receiver = start(receive, "--listen", f"127.0.0.1:{port}")
    sender = start(send.replace("4433", port), "--duration", "2", "--wait", "15")
    said, _ = sender.communicate(timeout=60)
    assert sender.returncode == 0, said
    heard, _ = receiver.communicate(timeout=60)
    assert receiver.returncode == 0, heard
    assert list((tmp_path / "received").glob("*.mp4")), heard
    for command in commands:
        if command.split()[1] in ("recv", "send", "demo"):
            continue  # tests/bench/test_demo.py runs the demo
        other = start(command)
        words, _ = other.communicate(timeout=90)
        assert other.returncode == 0, f"{command}: {words}"
