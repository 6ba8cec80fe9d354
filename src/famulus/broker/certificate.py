"""Makes the certificate of a broker's HTTP port, for those who come from elsewhere. It signs itself."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from famulus.broker.folder import Folder, write_file
from famulus.broker.tls import fingerprint

#: What some browsers accept at most.
VALID = timedelta(days=825)
#: It is valid for this long already, since clocks differ.
EARLIER = timedelta(days=1)
LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")
#: What the standard allows for a subject's name. Browsers do not look at it: the other names count.
SUBJECT_CHARS_MAX = 64


def make_certificate(folder: Folder, names: Iterable[str]) -> str:
    """A new key and a certificate for these names and those of this machine. Returns the fingerprint of it.

    Those that are there already are replaced.
    """
    told = [_told(name) for name in dict.fromkeys((*names, socket.gethostname(), *LOCAL_NAMES))]
    alternatives = [each for each in told if each is not None]
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, str(alternatives[0].value)[:SUBJECT_CHARS_MAX])])
    begins = datetime.now(UTC) - EARLIER
    # It is no authority: whoever trusts it trusts this broker, and nothing that its key might sign.
    usage = x509.KeyUsage(True, False, False, False, False, False, False, False, False)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begins)
        .not_valid_after(begins + VALID)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(usage, critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    write_file(folder.certificate_key, key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    write_file(folder.certificate, certificate.public_bytes(Encoding.PEM))
    return fingerprint(folder.certificate)


def days_left(path: Path) -> int | None:
    """How long the first certificate in this file is still valid; negative if it is no longer.

    None for one that only OpenSSL understands: this library is stricter.
    """
    try:
        return (x509.load_pem_x509_certificate(path.read_bytes()).not_valid_after_utc - datetime.now(UTC)).days
    except ValueError:
        return None


def _told(name: str) -> x509.DNSName | x509.IPAddress | None:
    """None for what is nobody's address, and for what cannot be in a certificate: a machine may have any name."""
    try:
        address = ipaddress.ip_address(name)
        return None if address.is_unspecified else x509.IPAddress(address)
    except ValueError:
        pass
    try:
        return x509.DNSName(name.encode("idna").decode())
    except (UnicodeError, ValueError):
        return None
