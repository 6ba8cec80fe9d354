"""Asks the HTTP port of a broker, and says in one sentence why there is no answer. Knows no columns."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

import msgspec
import typer

from famulus.errors import NobodyAnswers

if TYPE_CHECKING:
    from famulus.web.status.views import Status

STATUS = "/api/v1/status"
ADDRESS = "http://127.0.0.1:7104"
ANSWER_S = 5.0
ANSWER_BYTES_MAX = 64 * 1024 * 1024

Address = Annotated[
    str | None, typer.Option("--address", "-a", help=f"The broker's HTTP port. [default: FAMULUS_HTTP, or {ADDRESS}]")
]
AsJson = Annotated[bool, typer.Option("--json", help="JSON, for programs.")]


def base_of(address: str | None) -> str:
    """An address as people type it, completed."""
    given = address or os.environ.get("FAMULUS_HTTP") or ADDRESS
    whole = given if "://" in given else f"http://{given}"
    try:
        parts = urlsplit(whole)
        fine = parts.scheme in ("http", "https") and parts.hostname and (parts.port or True)
    except ValueError:
        fine = False
    if not fine:
        raise typer.BadParameter(f"{given!r} is not an address such as {ADDRESS}")
    return whole.rstrip("/")


def fetch(base: str, path: str) -> bytes:
    # Here, since it takes longer to load than all our commands together.
    from urllib.error import HTTPError, URLError
    from urllib.request import ProxyHandler, Request, build_opener

    # A proxy from the environment is for the outside world, not for a broker.
    opener = build_opener(ProxyHandler({}))
    try:
        with opener.open(Request(base + path, headers={"Accept": "application/json"}), timeout=ANSWER_S) as answer:
            data: bytes = answer.read(ANSWER_BYTES_MAX)
            return data
    except HTTPError as error:
        with error:
            raise NobodyAnswers(f"{base} answers {error.code} ({_said(error.read(10_000)) or error.reason})") from None
    except (URLError, OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise NobodyAnswers(
            f"nobody answers at {base} ({reason}); is a broker running there, and with its HTTP port?"
        ) from None


def ask_status(base: str) -> Status:
    return read_status(base, fetch(base, STATUS))


def read_status(base: str, answer: bytes) -> Status:
    from famulus.web.status.views import Status

    try:
        return msgspec.json.decode(answer, type=Status)
    except msgspec.DecodeError:
        raise NobodyAnswers(f"something answers at {base}, but not as a broker does") from None


def _said(body: bytes) -> str:
    try:
        told: Any = json.loads(body)
        return str(told["error"])[:200]
    except (ValueError, KeyError, TypeError):
        return body.decode("utf-8", "replace").strip()[:200]
