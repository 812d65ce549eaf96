"""Certificates: made once, renewed in time, pinned by fingerprint, and refused with reasons."""

from __future__ import annotations

import datetime as dt
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
)

import limen
from limen.scheduler.errors import UsageError
from limen.transport.errors import ConnectError
from limen.transport.quic import tls
from limen.transport.quic.tls import (
    RENEW_DAYS,
    VALID_DAYS,
    Certificate,
    Trust,
    development_certificate,
    kept_development_fingerprint,
    make_certificate,
    normal_fingerprint,
    same_fingerprint,
)


def key_pem(certificate: Certificate, password: bytes | None = None) -> bytes:
    encryption = BestAvailableEncryption(password) if password else NoEncryption()
    key: Any = certificate.private_key
    return bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))


def certificate_pem(certificate: Certificate) -> bytes:
    return certificate.certificate.public_bytes(Encoding.PEM)


# -- the development certificate


def test_it_is_made_once_and_kept(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    assert kept_development_fingerprint(folder) is None
    assert not folder.exists(), "asking makes nothing"
    first = development_certificate(folder)
    assert development_certificate(folder).fingerprint == first.fingerprint
    assert kept_development_fingerprint(folder) == first.fingerprint
    assert [p.name for p in folder.iterdir()] == ["development.pem"]
    if sys.platform != "win32":
        assert stat.S_IMODE((folder / "development.pem").stat().st_mode) == 0o600


def test_it_is_valid_no_longer_than_browsers_take_a_hash_for(tmp_path: Path) -> None:
    made = development_certificate(tmp_path).certificate
    life = made.not_valid_after_utc - made.not_valid_before_utc
    assert life <= dt.timedelta(days=14)
    assert made.not_valid_before_utc < dt.datetime.now(dt.UTC)


@pytest.mark.parametrize(
    ("days_left", "kept"), [(RENEW_DAYS + 0.1, True), (RENEW_DAYS - 0.1, False)]
)
def test_it_is_renewed_near_its_end(tmp_path: Path, days_left: float, kept: bool) -> None:
    age = dt.timedelta(days=VALID_DAYS - days_left)
    old = make_certificate(now=dt.datetime.now(dt.UTC) - age)
    tls._write(tmp_path / "development.pem", old, anew=True)
    assert (development_certificate(tmp_path).fingerprint == old.fingerprint) is kept
    assert (kept_development_fingerprint(tmp_path) == old.fingerprint) is kept


@pytest.mark.parametrize("content", [b"", b"garbage", b"-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_a_damaged_file_is_replaced(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "development.pem").write_bytes(content)
    made = development_certificate(tmp_path)
    assert kept_development_fingerprint(tmp_path) == made.fingerprint


def test_where_nothing_can_be_written_it_lives_in_memory(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    first = development_certificate(blocked)
    assert first.fingerprint != development_certificate(blocked).fingerprint
    assert kept_development_fingerprint(blocked) is None
    assert blocked.read_text() == "not a folder"


def test_processes_that_start_together_agree(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path;"
        "from limen.transport.quic.tls import development_certificate as d;"
        "sys.stdin.readline(); print(d(Path(sys.argv[1])).fingerprint)"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(tmp_path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = {process.communicate(timeout=30)[0].strip() for process in processes}
    assert said == {kept_development_fingerprint(tmp_path)}


def test_whoever_writes_first_is_whom_all_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "development.pem"
    other = make_certificate()

    def meanwhile(*, now: dt.datetime) -> Certificate:
        tls._write(path, other, anew=True)  # another process, at the worst moment
        return make_certificate(now=now)

    monkeypatch.setattr(tls, "make_certificate", meanwhile)
    assert development_certificate(tmp_path).fingerprint == other.fingerprint
    assert kept_development_fingerprint(tmp_path) == other.fingerprint


def test_the_data_folder_can_be_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LIMEN_DATA_DIR", str(tmp_path / "mine"))
    assert tls.data_folder() == tmp_path / "mine"
    made = development_certificate()
    assert kept_development_fingerprint(tmp_path / "mine") == made.fingerprint


# -- fingerprints and trust


def test_fingerprints_in_the_forms_people_write(certificate: Certificate) -> None:
    plain = certificate.fingerprint
    assert len(plain) == 64
    pairs = [plain[i : i + 2] for i in range(0, 64, 2)]
    der = certificate.certificate.public_bytes(Encoding.DER)
    for form in (
        plain,
        plain.upper(),
        ":".join(pairs).upper(),
        " ".join(pairs),
        f"  {plain}\n",
        f"sha256:{plain}",
        "SHA256 Fingerprint=" + ":".join(pairs).upper(),
    ):
        assert normal_fingerprint(form) == plain
        assert same_fingerprint(der, form)
        assert Trust(fingerprint=form).fingerprint == plain
    assert not same_fingerprint(der, "0" * 64)


@pytest.mark.parametrize("text", ["", "abc", "g" * 64, "a" * 63, "a" * 65, "é" * 64, "sha256:"])
def test_what_is_no_fingerprint_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="64 hexadecimal digits"):
        Trust(fingerprint=text)


def test_trust_is_one_way_or_the_other(tmp_path: Path) -> None:
    import ssl

    ca = tmp_path / "ca.pem"
    ca.write_bytes(certificate_pem(make_certificate()))
    with pytest.raises(UsageError, match="not both"):
        Trust("ab" * 32, str(ca))
    with pytest.raises(UsageError, match="does not exist"):
        Trust(None, str(tmp_path / "missing.pem"))
    assert Trust(None, str(ca)).verify_mode is ssl.CERT_REQUIRED
    assert Trust().verify_mode is ssl.CERT_REQUIRED, "never blindly"
    assert Trust("ab" * 32).verify_mode is ssl.CERT_NONE


# -- certificates of one's own


def test_a_certificate_is_loaded_with_its_chain(tmp_path: Path) -> None:
    one, other = make_certificate(), make_certificate()
    (tmp_path / "c.pem").write_bytes(certificate_pem(one) + certificate_pem(other))
    (tmp_path / "k.pem").write_bytes(key_pem(one))
    loaded = Certificate.load(tmp_path / "c.pem", str(tmp_path / "k.pem"))
    assert loaded.fingerprint == one.fingerprint
    assert loaded.chain == (other.certificate,)


def test_what_cannot_be_loaded_is_named(tmp_path: Path) -> None:
    one, other = make_certificate(), make_certificate()
    good_c, good_k = tmp_path / "c.pem", tmp_path / "k.pem"
    good_c.write_bytes(certificate_pem(one))
    good_k.write_bytes(key_pem(one))
    (tmp_path / "other.pem").write_bytes(key_pem(other))
    (tmp_path / "locked.pem").write_bytes(key_pem(one, b"secret"))
    (tmp_path / "junk.pem").write_bytes(b"junk")
    for certificate, key, words in (
        ("missing.pem", "k.pem", r"certificate from .*missing\.pem"),
        ("junk.pem", "k.pem", r"certificate from .*junk\.pem"),
        ("k.pem", "k.pem", r"certificate from .*k\.pem"),
        ("c.pem", "missing.pem", r"private key from .*missing\.pem"),
        ("c.pem", "junk.pem", r"private key from .*junk\.pem"),
        ("c.pem", "locked.pem", r"private key from .*locked\.pem"),
        ("c.pem", "other.pem", r"other\.pem does not belong to .*c\.pem"),
    ):
        with pytest.raises(UsageError, match=words):
            Certificate.load(tmp_path / certificate, tmp_path / key)


@pytest.mark.realtime
async def test_a_ca_file_is_checked_with_the_name(tmp_path: Path) -> None:
    """A self-signed certificate is its own authority: right for its names, wrong for others."""
    made = make_certificate()
    ca = tmp_path / "ca.pem"
    ca.write_bytes(certificate_pem(made))

    async def handler(session: limen.Session) -> None:
        await session.wait_closed()

    async with limen.serve(handler, certificate=made) as server:
        for name in (None, "localhost"):
            async with limen.connect(
                "127.0.0.1", server.port, ca_file=ca, server_name=name
            ) as session:
                assert not session.is_closed
        with pytest.raises(ConnectError, match="certificate was not accepted"):
            async with limen.connect(
                "127.0.0.1", server.port, ca_file=ca, server_name="example.org"
            ):
                pass
        (tmp_path / "junk.pem").write_bytes(b"junk")
        with pytest.raises((ConnectError, UsageError)) as caught:
            async with limen.connect("127.0.0.1", server.port, ca_file=tmp_path / "junk.pem"):
                pass
        assert "\n" not in str(caught.value)
