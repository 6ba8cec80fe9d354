"""Asks the HTTP port of a broker, and says in one sentence why there is no answer. Knows no columns."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
import typer

from famulus.errors import NobodyAnswers, SettingsError

if TYPE_CHECKING:
    import ssl

    from famulus.web.status.views import Status

STATUS = "/api/v1/status"
ADDRESS = "http://127.0.0.1:7104"
ANSWER_S = 5.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024

Address = Annotated[
    str | None, typer.Option("--address", "-a", help=f"The broker's HTTP port. [default: FAMULUS_HTTP, or {ADDRESS}]")
]
Ca = Annotated[
    Path | None,
    typer.Option(
        "--ca", help="Whose certificates to trust: the broker's tls.crt. [default: FAMULUS_CA, or the system's]"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


class HttpPort:
    def __init__(self, address: str | None = None, ca: Path | None = None, answer_s: float = ANSWER_S) -> None:
        self._answer_s = answer_s
        given = address or os.environ.get("FAMULUS_HTTP") or ADDRESS.removeprefix("http://")
        named = os.environ.get("FAMULUS_CA")
        self._ca = ca or (Path(named) if named else None)
        if self._ca is not None and not self._ca.exists():
            # Also where no certificate is looked at: whoever names a file believes that it counts.
            raise SettingsError(f"{self._ca}: cannot be read ({os.strerror(errno.ENOENT)})")
        self._checks = True
        self.base = base_of(given)
        #: Whether somebody said if it speaks TLS; otherwise we find out.
        self._scheme_known = "://" in given
        if not self._scheme_known and self._ca is not None and not _is_loopback(self.base):
            self._switch_to_tls()

    def ask_status(self) -> Status:
        return read_status(self.base, self.fetch(STATUS))

    def fetch(self, path: str) -> bytes:
        try:
            return self._fetch(path)
        except NobodyAnswers:
            if self.base.startswith("https://") or not _certificate_at(self.base, self._answer_s):
                raise
            if self._scheme_known:
                raise NobodyAnswers(f"the broker at {self.base} speaks TLS; ask for https://") from None
        self._switch_to_tls()
        # At loopback, where we would also have believed somebody who speaks plain HTTP, it need not be checked.
        self._checks = self._ca is not None or not _is_loopback(self.base)
        return self._fetch(path)

    def _switch_to_tls(self) -> None:
        self.base = self.base.replace("http://", "https://", 1)
        self._scheme_known = True

    def _fetch(self, path: str) -> bytes:
        # Here, since it takes longer to load than all our commands together.
        import ssl
        from http.client import HTTPException
        from urllib.error import HTTPError, URLError
        from urllib.request import HTTPSHandler, ProxyHandler, Request, build_opener

        # A proxy from the environment is for the outside world, not for a broker.
        opener = build_opener(ProxyHandler({}), HTTPSHandler(context=self._context()))
        request = Request(self.base + path, headers={"Accept": "application/json"})
        try:
            with opener.open(request, timeout=self._answer_s) as answer:
                data: bytes = answer.read(ANSWER_BYTES_MAX)
                return data
        except HTTPError as error:
            with error:
                said = _said(error.read(10_000)) or error.reason
                raise NobodyAnswers(f"{self.base} answers {error.code} ({said})") from None
        except (URLError, HTTPException, OSError, ValueError) as error:
            reason = getattr(error, "reason", error)
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise NobodyAnswers(_distrust(self.base, reason.verify_message)) from None
            raise NobodyAnswers(
                f"nobody answers at {self.base} ({reason}); is a broker running there, and with its HTTP port?"
            ) from None

    def _context(self) -> ssl.SSLContext | None:
        """None if it is not needed: to read the system's authorities takes a while."""
        import ssl

        if not self.base.startswith("https://"):
            return None
        if not self._checks:
            return _without_checks()
        try:
            return ssl.create_default_context(cafile=self._ca)
        except ssl.SSLError:
            raise SettingsError(f"{self._ca}: is not a certificate in PEM, or is damaged") from None
        except OSError as error:
            raise SettingsError(f"{self._ca}: cannot be read ({error.strerror})") from None


def base_of(given: str) -> str:
    """An address as people type it, completed."""
    whole = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(whole)
        fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        fine = False
    if not fine:
        raise typer.BadParameter(f"{given!r} is not an address such as {ADDRESS}")
    return whole.rstrip("/")


def read_status(base: str, answer: bytes) -> Status:
    from famulus.web.status.views import Status

    try:
        return msgspec.json.decode(answer, type=Status)
    except msgspec.DecodeError:
        raise NobodyAnswers(f"something answers at {base}, but not as a broker does") from None


def _distrust(base: str, why: str) -> str:
    seen = _certificate_at(base)
    # As `famulus init` and the broker's log show it.
    shown = f", with the SHA-256 fingerprint {_fingerprint(seen)}" if seen else ""
    return (
        f"the certificate at {base} is not trusted here ({why}){shown}; if it is your broker's, "
        "say so with its tls.crt: --ca FILE, or FAMULUS_CA"
    )


def _certificate_at(base: str, answer_s: float = ANSWER_S) -> bytes:
    """What is shown there, whether one trusts it or not; empty if it does not speak TLS."""
    import socket

    parts = urlsplit(base)
    host, port = parts.hostname or "", parts.port or {"http": 80, "https": 443}[parts.scheme]
    try:
        with (
            socket.create_connection((host, port), answer_s) as connection,
            _without_checks().wrap_socket(connection, server_hostname=host) as sealed,
        ):
            return sealed.getpeercert(binary_form=True) or b""
    except (OSError, ValueError):
        return b""


def _without_checks() -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def _fingerprint(certificate: bytes) -> str:
    from hashlib import sha256

    return sha256(certificate).digest().hex(":").upper()


def _is_loopback(base: str) -> bool:
    host = urlsplit(base).hostname or ""
    return host in ("localhost", "::1") or host.startswith("127.")


def _said(body: bytes) -> str:
    try:
        told: Any = json.loads(body)
        return str(told["error"])[:200]
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace").strip()[:200]
