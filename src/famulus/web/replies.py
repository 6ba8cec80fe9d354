"""How the HTTP port answers in JSON: a browser must not keep any of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

NO_STORE = {"cache-control": "no-store"}

Answer = Callable[[Request], Awaitable[Response]]


def json_reply(content: object, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    """`content` may already be JSON, as bytes."""
    data = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return Response(data, code, headers={**NO_STORE, **(headers or {})}, media_type="application/json")
