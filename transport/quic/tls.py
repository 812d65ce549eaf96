"""Certificates: a development one made on first use, and pinning by fingerprint.

QUIC is never without TLS. A server that is given no certificate uses a development certificate
that is made on first use and kept in the user's data folder, so that its fingerprint survives
restarts; a client trusts it by that fingerprint (SHA-256 of the DER form), never blindly.
It is an ECDSA P-256 certificate valid for 13 days, the longest a browser accepts by hash
(W3C WebTransport, section on certificate hashes: at most 14 days).
"""

from __future__ import annotations

import datetime as dt
import hashlib
import hmac
import ipaddress
import os
import ssl
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import NameOID

from ...scheduler.errors import UsageError

VALID_DAYS = 13
RENEW_DAYS = 2
"""A certificate with less than this left is replaced at the next start."""


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate chain and its private key."""

    certificate: x509.Certificate
    private_key: ec.EllipticCurvePrivateKey | object
    chain: tuple[x509.Certificate, ...] = ()

    @property
    def fingerprint(self) -> str:
        """SHA-256 of the certificate's DER form, 64 lower-case hexadecimal digits."""
        return fingerprint_of(self.certificate.public_bytes(Encoding.DER))

    @classmethod
    def load(cls, certificate: str | os.PathLike[str], key: str | os.PathLike[str]) -> Certificate:
        """Read PEM files. Raises UsageError that names the file and what is wrong with it."""
        try:
            first, *chain = x509.load_pem_x509_certificates(Path(certificate).read_bytes())
        except (OSError, ValueError) as error:
            raise UsageError(
                f"cannot read a PEM certificate from {certificate}: {error}"
            ) from error
        try:
            private_key = load_pem_private_key(Path(key).read_bytes(), password=None)
        except (OSError, ValueError, TypeError) as error:
            raise UsageError(f"cannot read a PEM private key from {key}: {error}") from error
        if private_key.public_key() != first.public_key():
            raise UsageError(f"the key in {key} does not belong to the certificate {certificate}")
        return cls(first, private_key, tuple(chain))


def fingerprint_of(der: bytes) -> str:
    """SHA-256 of a DER certificate in hexadecimal."""
    return hashlib.sha256(der).hexdigest()


def normal_fingerprint(text: str) -> str:
    """A fingerprint as people and openssl write it, in normal form: 64 lower-case digits.

    Colons, white space, upper case and a leading "sha256:" or "SHA256 Fingerprint=" are fine.

    Raises UsageError when it is not 64 hexadecimal digits.
    """
    digits = "".join(text.lower().split()).replace(":", "")
    digits = digits.removeprefix("sha256").removeprefix("fingerprint=")
    if len(digits) != 64 or not set(digits) <= set("0123456789abcdef"):
        raise UsageError(
            f"a certificate fingerprint is 64 hexadecimal digits (SHA-256), got {text!r}"
        )
    return digits


def same_fingerprint(der: bytes, expected: str) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(fingerprint_of(der), normal_fingerprint(expected))


def make_certificate(*, now: dt.datetime | None = None) -> Certificate:
    """A new self-signed development certificate for localhost and the loopback addresses."""
    now = now or dt.datetime.now(dt.UTC)
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "limen development")])
    loopback = [ipaddress.ip_address("127.0.0.1"), ipaddress.ip_address("::1")]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=VALID_DAYS))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), *(x509.IPAddress(a) for a in loopback)]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    return Certificate(certificate, key)


def data_folder() -> Path:
    """Where limen keeps a user's own files; LIMEN_DATA_DIR overrides the system's custom."""
    if override := os.environ.get("LIMEN_DATA_DIR"):
        return Path(override)
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local")) / "limen"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Application Support" / "limen"
    return Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "limen"


def development_certificate(folder: Path | None = None) -> Certificate:
    """The user's development certificate, made or renewed when needed.

    Where the folder cannot be written (read-only home), a certificate for this process alone
    is returned; its fingerprint then changes at each start.
    """
    folder = folder or data_folder()
    path = folder / "development.pem"
    anew = not path.exists()
    kept = _read(path)
    left = dt.timedelta(days=RENEW_DAYS)
    now = dt.datetime.now(dt.UTC)
    if kept is not None and kept.certificate.not_valid_after_utc - now > left:
        return kept
    made = make_certificate(now=now)
    try:
        _write(path, made, anew=anew)
    except OSError:
        return made
    # Another process may have written at the same time; what is in the file is what all use.
    return _read(path) or made


def kept_development_fingerprint(folder: Path | None = None) -> str | None:
    """The fingerprint of the certificate on this machine, or None; makes nothing."""
    kept = _read((folder or data_folder()) / "development.pem")
    return None if kept is None else kept.fingerprint


def _read(path: Path) -> Certificate | None:
    try:
        data = path.read_bytes()
        (certificate,) = x509.load_pem_x509_certificates(data)
        return Certificate(certificate, load_pem_private_key(data, password=None))
    except (OSError, ValueError, TypeError):
        return None


def _write(path: Path, made: Certificate, *, anew: bool) -> None:
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent)  # readable by its owner alone
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(made.certificate.public_bytes(Encoding.PEM))
            file.write(
                made.private_key.private_bytes(  # type: ignore[union-attr]
                    Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
                )
            )
        if anew:
            try:
                os.link(name, path)
            except FileExistsError:
                return  # another process was first; all use its certificate
            except OSError:
                Path(name).replace(path)  # a file system without hard links
        else:
            Path(name).replace(path)
    finally:
        Path(name).unlink(missing_ok=True)


@dataclass(frozen=True, slots=True)
class Trust:
    """How a client decides whom it talks to; exactly one way is used.

    With a fingerprint, that certificate and no other is accepted, whatever its name. Otherwise
    the chain is checked against `ca_file` or the system's authorities, and the name against
    the host.
    """

    fingerprint: str | None = None
    ca_file: str | None = None

    def __post_init__(self) -> None:
        if self.fingerprint is not None:
            object.__setattr__(self, "fingerprint", normal_fingerprint(self.fingerprint))
            if self.ca_file is not None:
                raise UsageError("give a fingerprint or a CA file, not both")
        if self.ca_file is not None and not Path(self.ca_file).is_file():
            raise UsageError(f"the CA file {self.ca_file} does not exist")

    @property
    def verify_mode(self) -> ssl.VerifyMode:
        """For aioquic: a pinned certificate is compared by us, after the handshake."""
        return ssl.CERT_REQUIRED if self.fingerprint is None else ssl.CERT_NONE
