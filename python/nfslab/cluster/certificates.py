"""The certificate of a cluster: who holds it is trusted with all its machines.

One key and one certificate that vouches for itself, the same for scheduler, workers and prime. TLS
keeps everybody else out; among those who hold it nobody is told apart, and each can run what it
likes on all hosts as the user that the workers run as, as with any cluster of Dask's.
"""

from __future__ import annotations

import datetime
import ssl
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from nfslab import clock
from nfslab.errors import UsageError
from nfslab.machine.users import write_private

if TYPE_CHECKING:
    from pathlib import Path

VALID_DAYS: Final = 30
CLOCK_SLACK: Final = datetime.timedelta(days=1)
"""Hosts whose clocks are behind ours accept it, too: what their offset is, is measured later."""
CERTIFICATE: Final = "cluster.pem"
KEY: Final = "cluster.key"
FILES: Final = (CERTIFICATE, KEY)
"""Of a cluster's folder."""


@dataclass(frozen=True, slots=True)
class Papers:
    """What every process of a cluster shows, and believes alone, as PEM text."""

    certificate: str
    key: str

    @classmethod
    def new(cls) -> Papers:
        """Those of a new cluster."""
        from cryptography import x509
        from cryptography.hazmat.primitives import hashes, serialization
        from cryptography.hazmat.primitives.asymmetric import ec
        from cryptography.x509.oid import NameOID

        key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "nfslab cluster")])
        now = clock.wall()
        certificate = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - CLOCK_SLACK)
            .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
            .sign(key, hashes.SHA256())
        )
        secret = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return cls(certificate.public_bytes(serialization.Encoding.PEM).decode(), secret.decode())

    @classmethod
    def of(cls, folder: Path) -> Papers:
        """Those in a cluster's folder; UsageError, also if others can read the key."""
        key = folder / KEY
        try:
            if key.stat().st_mode & 0o077:
                raise UsageError(
                    f"others may read the private key {key}",
                    why=f"its mode is {key.stat().st_mode & 0o777:04o}",
                    fix=f"chmod 0600 {key}; if somebody may have read it, start the cluster anew",
                )
            return cls((folder / CERTIFICATE).read_text("ascii"), key.read_text("ascii"))
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"no certificates of a cluster in {folder}",
                why=str(error),
                fix="nfslab cluster start makes them; with --dir, name its folder here as well",
            ) from error

    def write(self, folder: Path) -> None:
        """Keep them there; the key is readable by the owner alone."""
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        write_private(folder / CERTIFICATE, self.certificate)
        write_private(folder / KEY, self.key)

    def security(self) -> Any:
        """TLS 1.3 in which both sides have to show this certificate (`distributed.Security`)."""
        from distributed import Security

        own = {
            f"tls_{role}_{part}": text
            for role in ("client", "scheduler", "worker")
            for part, text in (("cert", self.certificate), ("key", self.key))
        }
        return Security(
            require_encryption=True,
            tls_ca_file=self.certificate,
            tls_min_version=ssl.TLSVersion.TLSv1_3,
            **own,
        )
