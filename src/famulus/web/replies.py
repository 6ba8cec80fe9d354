"""How the HTTP port answers in JSON: nothing of it is to be kept by a browser."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import msgspec
from starlette.requests import Request
from starlette.responses import Response

NO_STORE = {"cache-control": "no-store"}

Answer = Callable[[Request], Awaitable[Response]]


def json_reply(content: object, code: int = 200, headers: dict[str, str] | None = None) -> Response:
    """`content` may be JSON already."""
    data = content if isinstance(content, bytes) else msgspec.json.encode(content)
    return Response(data, code, headers={**NO_STORE, **(headers or {})}, media_type="application/json")
