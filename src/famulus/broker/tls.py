"""TLS for the HTTP port: reads a certificate and its key, and says in one sentence what is wrong with them."""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import ssl
from binascii import a2b_base64
from pathlib import Path

from msgspec.structs import replace

from famulus.broker.folder import Folder, opened, plainly
from famulus.broker.settings import Settings, is_loopback
from famulus.errors import SettingsError

#: A certificate, maybe with those of its authorities.
_FILE_BYTES_MAX = 1024 * 1024
_CERTIFICATE = re.compile(rb"-----BEGIN CERTIFICATE-----(.+?)-----END CERTIFICATE-----", re.DOTALL)


def with_own_certificate(settings: Settings) -> Settings:
    """On loopback nobody needs one, and browsers would warn of one that signs itself."""
    if not settings.folder or settings.http_certificate or settings.http_key or is_loopback(settings.http_host):
        return settings
    folder = Folder(Path(settings.folder))
    if not folder.certificate.exists() and not folder.certificate_key.exists():
        return settings
    return replace(settings, http_certificate=str(folder.certificate), http_key=str(folder.certificate_key))


def check_http(settings: Settings) -> None:
    """Raises a SettingsError if the HTTP port cannot be opened like this, or should not be."""
    if not settings.http:
        return
    if bool(settings.http_certificate) != bool(settings.http_key):
        missing = "http_key" if settings.http_certificate else "http_certificate"
        raise SettingsError(f"{missing}: is missing; a certificate and its key are given together")
    if settings.http_certificate:
        server_context(Path(settings.http_certificate), Path(settings.http_key))
    elif not is_loopback(settings.http_host) and not settings.plain_on_purpose:
        raise SettingsError(
            f"http_host: all that is shown at {settings.http_host} would be readable for everybody on the way; give it "
            "a certificate (famulus init makes one), or say --plain-on-purpose"
        )


def server_context(certificate: Path, key: Path) -> ssl.SSLContext:
    """What a server needs to speak TLS, 1.2 or newer."""
    fingerprint(certificate)
    _check_private(key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.minimum_version = ssl.TLSVersion.TLSv1_2

    def no_password() -> str:
        raise SettingsError(f"{key}: has a password, which nobody is there to type; give a key without one")

    try:
        context.load_cert_chain(certificate, key, no_password)
    except ssl.SSLError as error:
        if error.reason == "KEY_VALUES_MISMATCH":
            raise SettingsError(f"{key}: is not the key of the certificate {certificate}") from None
        raise SettingsError(f"{key}: is not a private key in PEM, or is damaged") from None
    return context


def fingerprint(certificate: Path) -> str:
    """The SHA-256 of the first certificate in a file, as people compare it: AA:BB:..."""
    with plainly(certificate, "cannot be read"), opened(certificate, os.O_RDONLY | os.O_NONBLOCK) as fd:
        data = os.read(fd, _FILE_BYTES_MAX)
    try:
        # Tells whether it can be understood, which `load_cert_chain` would not tell apart from a bad key.
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=data.decode("ascii"))
        found = _CERTIFICATE.search(data)
        assert found is not None
    except (ssl.SSLError, ValueError):
        raise SettingsError(f"{certificate}: is not a certificate in PEM, or is damaged") from None
    return fingerprint_of(a2b_base64(found[1]))


def fingerprint_of(der: bytes) -> str:
    return hashlib.sha256(der).digest().hex(":").upper()


def _check_private(key: Path) -> None:
    with plainly(key, "cannot be read"), opened(key, os.O_RDONLY | os.O_NONBLOCK) as fd:
        mode = os.fstat(fd).st_mode
    if mode & 0o077:
        remedy = f"chmod 600 {shlex.quote(str(key))}"
        raise SettingsError(f"{key}: others may read this key (mode {mode & 0o777:03o}); run: {remedy}")
