"""Who may request what: anybody may read, under one of our names; admins may do more. Adds the security headers."""

from __future__ import annotations

from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from famulus.broker.settings import is_loopback
from famulus.web.admission import LOCAL_NAMES, name_of

#: Nothing from elsewhere, no inline scripts or styles, and no framing by others.
CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = (
    (b"content-security-policy", CONTENT_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), microphone=(), geolocation=()"),
)
TARGET_BYTES_MAX = 2048
#: Where those who are logged in can change something.
ADMIN_PATH = b"/api/v1/admin/"


class Guard:
    def __init__(self, app: ASGIApp, host: str, *, tls: bool) -> None:
        self._app = app
        #: A page from elsewhere can make a browser send us requests under a name of its own that resolves to this
        #: machine. While we are on loopback, our names are known, and requests under any other are not meant for us.
        #: With TLS there is no need: the browser itself sees that our certificate is not for that name.
        local = is_loopback(host) and not tls
        self._names = LOCAL_NAMES | {host.lower(), f"[{host.lower()}]"} if local else None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), *HEADERS]
            await send(message)

        answer, complaint = self._app, self._complaint(scope)
        if complaint is not None:
            code, sentence = complaint
            answer = PlainTextResponse(f"{sentence}\n", code, {"connection": "close"})
        await answer(scope, receive, send_guarded)

    def _complaint(self, scope: Scope) -> tuple[int, str] | None:
        if scope["method"] not in ("GET", "HEAD") and not _for_admins(scope):
            return 405, "this can only be read"
        if len(scope["raw_path"]) + len(scope["query_string"]) > TARGET_BYTES_MAX:
            return 414, "this address is too long"
        if self._names is not None and _host(scope) not in self._names:
            return 421, "this broker is not known by that name; ask for localhost or 127.0.0.1"
        return None


def _for_admins(scope: Scope) -> bool:
    return bool(scope["method"] == "POST" and scope["raw_path"].startswith(ADMIN_PATH))


def _host(scope: Scope) -> str:
    """The name in the Host header, without the port."""
    given = [value for name, value in scope["headers"] if name == b"host"]
    return name_of(str(given[0], "latin-1")) if len(given) == 1 else ""
