"""Who may speak to whom in a cluster: one authority per cluster, one certificate per role.

    authority (stays with the prime) ─ signs ─► scheduler, prime, worker, worker of NAME

Both sides of every connection show a certificate of this authority; which role and name the peer
has stands in it (a URI among its other names). So a worker cannot give orders as the prime does,
nor answer in the name of another host. A worker whose name is not known beforehand (Slurm,
Kubernetes and MPI choose the hosts) has the name `*`: such workers can pass for each other.

Source: RFC 5280; Python's ssl.SSLContext with CERT_REQUIRED on both sides.
"""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import quote, unquote

from nfslab import clock
from nfslab.errors import RunFailed, UsageError
from nfslab.machine.users import write_private

if TYPE_CHECKING:
    from pathlib import Path

    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
    from cryptography.x509 import Certificate

Role = Literal["scheduler", "prime", "worker"]
ROLES: Final[tuple[Role, ...]] = ("scheduler", "prime", "worker")
ANY_NAME: Final = "*"
VALID_DAYS: Final = 30
CLOCK_SLACK: Final = datetime.timedelta(days=1)
"""Hosts whose clocks are behind ours accept it, too: what their offset is, is measured later."""
PREFIX: Final = "nfslab:"
AUTHORITY: Final = "ca"
FILES: Final = tuple(f"{one}.{end}" for one in (AUTHORITY, *ROLES) for end in ("pem", "key"))
"""Of a cluster's folder."""


@dataclass(frozen=True, slots=True)
class Papers:
    """What one process shows and whom it believes, as PEM text."""

    ca: str
    certificate: str
    key: str

    def context(self, purpose: ssl.Purpose) -> ssl.SSLContext:
        """TLS 1.3 in which both sides have to show a certificate of the cluster's authority."""
        security = self.security()
        asked = {"ca_file": self.ca, "cert": self.certificate, "key": self.key, "ciphers": None}
        context: ssl.SSLContext = security._get_tls_context(asked, purpose)
        return context

    def security(self) -> Any:
        """The same for Dask's servers, whatever their role."""
        from distributed.security import Security

        own = {
            f"tls_{role}_{part}": text
            for role in ("client", "scheduler", "worker")
            for part, text in (("cert", self.certificate), ("key", self.key))
        }
        return Security(
            require_encryption=True,
            tls_ca_file=self.ca,
            tls_min_version=ssl.TLSVersion.TLSv1_3,
            **own,
        )


@dataclass(frozen=True, slots=True)
class Peer:
    """Who is at the other end, by its certificate."""

    role: str
    name: str

    def may_be(self, name: str) -> bool:
        """Does its certificate let it answer as the host of this name?"""
        return self.role == "worker" and self.name in (name, ANY_NAME)


def peer_of(shown: dict[str, Any] | None) -> Peer:
    """Of a certificate as `ssl` tells it; what is not ours has no role."""
    for kind, value in (shown or {}).get("subjectAltName", ()):
        if kind == "URI" and value.startswith(PREFIX):
            role, _, name = value.removeprefix(PREFIX).partition(":")
            return Peer(role, unquote(name))
    return Peer("", "")


class Authority:
    """The one that signs, with its private key."""

    def __init__(self, certificate: Certificate, key: EllipticCurvePrivateKey) -> None:
        self._certificate = certificate
        self._key = key

    @classmethod
    def new(cls) -> Authority:
        """Of a new cluster."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nfslab cluster")])
        builder = _begun(name, name, key).add_extension(
            x509.BasicConstraints(ca=True, path_length=0), critical=True
        )
        return cls(_signed(builder, key), key)

    @classmethod
    def of(cls, folder: Path) -> Authority:
        """As `write` left it; RunFailed."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
        from cryptography.hazmat.primitives.serialization import load_pem_private_key

        try:
            certificate = x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes())
            key = load_pem_private_key((folder / "ca.key").read_bytes(), None)
            assert isinstance(key, EllipticCurvePrivateKey)
        except (OSError, ValueError, AssertionError) as error:
            raise RunFailed(
                f"the cluster's authority in {folder} cannot be used",
                why=str(error),
                fix="start the cluster anew: nfslab cluster stop, nfslab cluster start",
            ) from error
        return cls(certificate, key)

    def papers(self, role: Role, name: str = "") -> Papers:
        """A certificate for a role; `name`: the host that it is for."""
        from cryptography import x509
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, f"nfslab {role}")])
        who = x509.UniformResourceIdentifier(f"{PREFIX}{role}:{quote(name, safe='')}")
        builder = (
            _begun(subject, self._certificate.subject, key)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.SubjectAlternativeName([who]), critical=False)
        )
        return Papers(_pem(self._certificate), _pem(_signed(builder, self._key)), _key_pem(key))

    def write(self, folder: Path) -> None:
        """Its own papers and those of each role, keys readable by the owner alone."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(folder / "ca.pem", _pem(self._certificate))
        write_private(folder / "ca.key", _key_pem(self._key))
        for role in ROLES:
            made = self.papers(role, ANY_NAME if role == "worker" else "")
            write_private(folder / f"{role}.pem", made.certificate)
            write_private(folder / f"{role}.key", made.key)


def papers_in(folder: Path, role: Role) -> Papers:
    """The papers of a role in a cluster's folder; UsageError, also if others can read the key."""
    try:
        key = folder / f"{role}.key"
        if key.stat().st_mode & 0o077:
            raise UsageError(
                f"others may read the private key {key}",
                why=f"its mode is {key.stat().st_mode & 0o777:04o}",
                fix=f"chmod 0600 {key}; if somebody may have read it, start the cluster anew",
            )
        names = ("ca.pem", f"{role}.pem", f"{role}.key")
        ca, certificate, secret = ((folder / name).read_text("ascii") for name in names)
        return Papers(ca, certificate, secret)
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"no certificates of a cluster in {folder}",
            why=str(error),
            fix="nfslab cluster start makes them; with --dir, name its folder here as well",
        ) from error


def _begun(subject: Any, issuer: Any, key: EllipticCurvePrivateKey) -> Any:
    from cryptography import x509

    now = clock.wall()
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - CLOCK_SLACK)
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
    )


def _signed(builder: Any, key: EllipticCurvePrivateKey) -> Certificate:
    from cryptography.hazmat.primitives import hashes

    certificate: Certificate = builder.sign(key, hashes.SHA256())
    return certificate


def _pem(certificate: Certificate) -> str:
    from cryptography.hazmat.primitives.serialization import Encoding

    return certificate.public_bytes(Encoding.PEM).decode()


def _key_pem(key: EllipticCurvePrivateKey) -> str:
    from cryptography.hazmat.primitives import serialization

    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    ).decode()
