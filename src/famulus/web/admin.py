"""The addresses under /api/v1/admin: what a logged-in admin sees and does. All of it is in docs/http.md."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any

from msgspec import Struct
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from famulus.admin.administration import Administration
from famulus.errors import FamulusError, HeadsMoved, NoAnswer, NoBroker, NotAllowed
from famulus.web import actions, admission
from famulus.web.findings import Findings
from famulus.web.office import Busy, Office, SessionOver, words_of
from famulus.web.replies import Answer, json_reply
from famulus.web.sessions import IDLE_NS, LIFETIME_NS, Session

TOKEN_HEADER = "x-famulus-token"
#: A value of the config has at most 64 KiB, and may be escaped.
BODY_BYTES_MAX = 512 * 1024
BODY_S = 10.0
COOKIE: dict[str, Any] = {"httponly": True, "samesite": "strict", "path": "/"}

ACTIONS: dict[str, type[Any]] = {
    "enable": actions.Enable,
    "disable": actions.Disable,
    "drain": actions.Drain,
    "forget": actions.Forget,
    "set": actions.SetKey,
    "unset": actions.UnsetKey,
    "resolve": actions.Resolve,
    "errors/clear": actions.ClearErrors,
}


#: Status codes of errors whose own message is the answer; any other error is the sender's mistake.
CODES: dict[type[Exception], int] = {SessionOver: 401, NotAllowed: 403, NoAnswer: 503}


class _HTTPRefusal(Exception):
    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(sentence)
        self.code = code


class Admin:
    def __init__(self, office: Office, findings: Findings) -> None:
        self._office = office
        self._findings = findings

    def routes(self) -> list[Route]:
        told: dict[str, Answer] = {"session": self.session, "config": self.config}
        done: dict[str, Answer] = {"login": self.login, "logout": self.logout, "findings/apply": self.apply_finding}
        done |= {name: self._doing(kind) for name, kind in ACTIONS.items()}
        return [
            Route(f"/api/v1/admin/{name}", _told(answer), methods=[method])
            for method, answers in (("GET", told), ("POST", done))
            for name, answer in answers.items()
        ]

    # -- who ----------------------------------------------------------------------------------------------------

    async def session(self, request: Request) -> Response:
        """Whether one can log in here, and who is logged in. Never an error: pages ask this first of all."""
        complaint = _complaint(request)
        why = complaint[1] if complaint is not None else self._office.closed_because()
        session = None if why else self._find(request, used=False)
        if session is None:
            return json_reply({"offered": not why, "why": why, "admin": None})
        return json_reply({"offered": True, "why": "", "admin": session.admin, "left_s": self._office.left_s(session)})

    async def login(self, request: Request) -> Response:
        _admit(request)
        if why := self._office.closed_because():
            raise _HTTPRefusal(409, why)
        wish = actions.read(actions.LoginBody, await _body(request))
        session = await self._office.log_in(wish.name, wish.password, _end(request, "client"), _cookie(request))
        left_s = self._office.left_s(session)
        answer = json_reply({"admin": session.admin, "token": session.token, "left_s": left_s, **TIMES})
        answer.set_cookie(_cookie_name(request), session.id, secure=_is_tls(request), **COOKIE)
        return answer

    async def logout(self, request: Request) -> Response:
        self._office.log_out(self._known(request))
        answer = json_reply({"admin": None})
        answer.delete_cookie(_cookie_name(request), secure=_is_tls(request), **COOKIE)
        return answer

    # -- what ---------------------------------------------------------------------------------------------------

    async def config(self, request: Request) -> Response:
        """Every key with its heads, as the steward shows it to admins."""
        session = self._known(request, used=False)
        prefix = request.query_params.get("prefix", "")
        return json_reply(await self._office.do(session, lambda administration: administration.show(prefix)))

    def _doing(self, kind: type[Struct]) -> Answer:
        async def do(request: Request) -> Response:
            session = self._known(request)
            action: Any = actions.read(kind, await _body(request))
            return await self._do(session, action.run)

        return do

    async def apply_finding(self, request: Request) -> Response:
        session = self._known(request)
        wish = actions.read(actions.ApplyFinding, await _body(request))
        finding = await self._findings.find(wish.id)
        if wish.digest and wish.digest != finding.digest:
            raise _HTTPRefusal(409, "the pipeline found something else since you looked: look at it again")
        return await self._do(session, partial(wish.run, finding))

    async def _do(self, session: Session, run: Callable[[Administration], actions.Result]) -> Response:
        done = await self._office.do(session, run)
        name = "plan" if isinstance(done, actions.ActionPlan) else "done"
        return json_reply({"left_s": self._office.left_s(session), name: done})

    def _known(self, request: Request, *, used: bool = True) -> Session:
        """The session, by both of its secrets. But first, check whether the request is accepted at all."""
        _admit(request)
        if not request.headers.get(TOKEN_HEADER):
            raise _HTTPRefusal(403, "the token of the session is missing")
        session = self._find(request, used=used)
        if session is None:
            raise _HTTPRefusal(401, "you are not logged in, or no longer")
        return session

    def _find(self, request: Request, *, used: bool) -> Session | None:
        return self._office.find(_cookie(request), request.headers.get(TOKEN_HEADER, ""), used=used)


TIMES = {"idle_s": IDLE_NS // 10**9, "lifetime_s": LIFETIME_NS // 10**9}


def _told(answer: Answer) -> Answer:
    """Refusals become answers, each with its status and one sentence."""

    async def tell(request: Request) -> Response:
        try:
            return await answer(request)
        except _HTTPRefusal as refusal:
            return json_reply({"error": str(refusal)}, refusal.code)
        except HeadsMoved as error:
            return json_reply({"error": error.reason, "moved": error.moved}, 409)
        except Busy:
            return json_reply({"error": "too many at once; try again in a moment"}, 503, {"retry-after": "1"})
        except NoBroker as error:
            return json_reply({"error": words_of(error)}, 503)
        except (FamulusError, SessionOver) as error:
            code = next((code for kind, code in CODES.items() if isinstance(error, kind)), 400)
            return json_reply({"error": str(error)}, code)

    return tell


def _admit(request: Request) -> None:
    complaint = _complaint(request)
    if complaint is not None:
        raise _HTTPRefusal(*complaint)


def _complaint(request: Request) -> tuple[int, str] | None:
    server, client = _end(request, "server"), _end(request, "client")
    return admission.complaint(request.method, request.scope["scheme"], server, client, request.headers)


def _end(request: Request, which: str) -> str:
    """The address at this end of the connection."""
    return str((request.scope.get(which) or ("",))[0])


def _is_tls(request: Request) -> bool:
    return bool(request.scope["scheme"] == "https")


def _cookie_name(request: Request) -> str:
    """A different one for each port, since cookies do not tell ports apart: a machine may have several brokers."""
    return f"famulus-{admission.port_of(request.headers.get('host', ''))}"


def _cookie(request: Request) -> str:
    return request.cookies.get(_cookie_name(request), "")


async def _body(request: Request) -> bytes:
    """The whole body, if it is neither too long nor too slow."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_S):
            async for piece in request.stream():
                body += piece
                if len(body) > BODY_BYTES_MAX:
                    raise _HTTPRefusal(413, f"a body has at most {BODY_BYTES_MAX} bytes")
    except TimeoutError:
        raise _HTTPRefusal(408, "the body did not come") from None
    except ClientDisconnect:
        raise _HTTPRefusal(400, "the body did not come") from None
    return bytes(body)
