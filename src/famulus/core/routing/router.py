"""Decides what a message means: questions of a dispatcher in, decisions out. Keeps no state between them.

Any router gives an equivalent answer to any question, so a dispatcher may ask another one when a router is lost. Random
numbers come in through `make_id`, for tasks that are refused and whose client gave them no message_id.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from hashlib import sha256
from shlex import quote
from typing import Literal

from famulus.core.access import CALL, DELEGATE, SERVE
from famulus.core.delivery import ServicePolicy
from famulus.core.rights import Rights, not_allowed
from famulus.core.routing.book import Book
from famulus.errors import ProtocolError
from famulus.wire import headers, inner, limits, reasons
from famulus.wire.headers import Fields

Frames = list[bytes]

REMEMBERED_MAX = 4096
#: How many a reason names; NEEDBROKER lists them all.
BROKERS_NAMED_MAX = 5
SERVICES_NAMED_MAX = 5

# The fields of a task and of its answer that are the broker's business; all others pass through untouched.
_TASK_FIELDS = ("message_id", "timeout_ms", "delay_ms", "attempt", "via", "client_token", "principal")
_ANSWER_FIELDS = frozenset({"request", "type", "message_id", "service", "outcome", "reason", "protocol"})


_WORKERS = (inner.FROM_WORKER, inner.FROM_STRANGER)


@lru_cache(REMEMBERED_MAX)
def _client_head(service: str) -> bytes:
    """The header for the client up to the message_id."""
    return headers.write("TASK", "RESPONSE", service=service)[:-1] + b',"message_id":'


class Router:
    def __init__(self, book: Book, make_id: Callable[[], str]) -> None:
        self._book = book
        #: How much the dispatcher has to do: see `famulus.core.load`.
        self.load = 0.0
        self._make_id = make_id
        self._digest = book.digest()
        self._epoch = inner.write_epoch(book.epoch)
        self._pong = headers.write("PONG", "RESPONSE", version=book.version, digest=self._digest)
        self._goodbye = headers.write("DISCONNECT", "RESPONSE")
        self._not_connected = headers.write_error(reasons.NOT_CONNECTED, "connect again")
        self._brokers = headers.write("NEEDBROKER", "RESPONSE")
        self._inactive = reasons.reason(reasons.DISABLED, f"this broker is {book.state}")
        self._terms_of = lru_cache(REMEMBERED_MAX)(self._write_terms)

    def decide(self, questions: list[Frames]) -> list[Frames]:
        return [self._decide(*question) for question in questions]

    def _decide(self, number: bytes, origin: bytes, principal: bytes, header: bytes) -> Frames:
        try:
            fields = headers.read_fields(header)
            message = headers.read_message(fields)
            return self._mean(number, origin, principal.decode(), fields, message)
        except ProtocolError as error:
            code, _, sentence = str(error).partition(": ")
            return [number, inner.FAULT, headers.write_error(code, sentence)]

    def _mean(self, number: bytes, origin: bytes, principal: str, fields: Fields, message: headers.Message) -> Frames:
        is_active = self._book.state == "active"
        match message:
            case headers.TaskRequest() if origin == inner.FROM_CLIENT and is_active:
                return self._accept(number, principal, fields, message)
            # A broker that is not active takes neither tasks nor workers, and says so: others may take them.
            case headers.TaskRequest() if origin == inner.FROM_CLIENT:
                return self._reject(number, message, self._inactive)
            case headers.TaskResponse() if origin == inner.FROM_WORKER_ANSWER:
                return self._answer(number, fields, message)
            case headers.TaskResponse() if origin == inner.FROM_DELEGATE:
                return self._answer_of_delegate(number, fields, message)
            case headers.TaskResponse() if origin == inner.FROM_WORKER:
                return [number, inner.LATE, b""]
            case headers.TaskResponse() if origin == inner.FROM_STRANGER:
                # A worker that outlived its session: the dispatcher was restarted, or the worker was silent for too
                # long.
                return [number, inner.LATE, self._not_connected]
            case headers.ManageRequest() if origin == inner.FROM_CLIENT:
                return [number, inner.MANAGE]
            case headers.CancelRequest() if origin == inner.FROM_CLIENT:
                return [number, inner.CANCEL]
            case headers.PartResponse() if origin == inner.FROM_STRANGER:
                return [number, inner.LATE, self._not_connected]
            case headers.PartResponse() | headers.CreditRequest():
                # Whatever was written exactly so has not come here, unless it was under a ticket.
                sentence = f"parts come from workers, under a ticket and a number, as {headers.PART.decode()};"
                sentence += f" credit from clients, as {headers.CREDIT.decode()}; byte for byte"
                raise ProtocolError(reasons.BAD_HEADER, sentence)
            case headers.NeedBrokerRequest() if origin in (inner.FROM_CLIENT, *_WORKERS):
                return [number, inner.REPLY, self._brokers, self._book.brokers(message.services, self.load)]
            case headers.DisconnectRequest() if origin in _WORKERS:
                return [number, inner.DISCONNECT, self._goodbye]
            case headers.ConnectRequest() if origin in _WORKERS and is_active:
                return self._connect(number, principal, message)
            case headers.PingRequest() if origin == inner.FROM_WORKER and is_active:
                return [number, inner.PONG, self._pong, self._epoch]
            case headers.CheckConfigRequest() if origin == inner.FROM_WORKER and is_active:
                return self._check_config(number, principal, message)
            case headers.ConnectRequest() | headers.PingRequest() | headers.CheckConfigRequest() if origin in _WORKERS:
                header = self._not_connected if is_active else headers.write("ERROR", "RESPONSE", reason=self._inactive)
                return [number, inner.REPLY, header, b""]
        raise ProtocolError(reasons.UNKNOWN_REQUEST, f"{fields['request']} {fields['type']} is not for this side")

    # -- tasks --------------------------------------------------------------------------------------------------

    def _reject(self, number: bytes, task: headers.TaskRequest, reason: str) -> Frames:
        return [number, inner.REPLY, self._rejection(task, reason), b""]

    def _rejection(self, task: headers.TaskRequest, reason: str) -> bytes:
        head = _client_head(task.service) + headers.write_text(task.message_id or self._make_id())
        return head + inner.tail("REJECTED", reason)

    def _accept(self, number: bytes, principal: str, fields: Fields, task: headers.TaskRequest) -> Frames:
        service = task.service
        if self._may_not_pass_on(principal, task):
            header = headers.write_error(reasons.NOT_ALLOWED, "only brokers pass tasks on, and say for whom")
            return _refuse(number, header, DELEGATE, principal, [service])
        caller = self._caller(principal, task)
        if lacking := self._lacks(caller, "call", [service]):
            header = self._rejection(task, _may_not(caller, "call", lacking))
            return _refuse(number, header, CALL, caller, lacking)
        if not self._book.broker.serves_any((service,)):
            return self._reject(number, task, self._not_served([service]))
        # What the client says is passed on to the worker, known or not; the dispatcher adds id, attempt and time left.
        for name in _TASK_FIELDS:
            fields.pop(name, None)
        terms = self._terms_of(service, task.timeout_ms, task.priority, task.credit, task.idempotent, task.hedge)
        if not task.via:  # otherwise the broker that it came to first has said so
            fields.pop("allowed_ms", None)
            if task.headers:
                fields["allowed_ms"] = inner.read_terms(terms).timeout_ms
        return [
            number,
            inner.ACCEPT,
            service.encode(),
            inner.with_delay(terms, task.delay_ms) if task.delay_ms else terms,
            headers.write_fields(fields)[:-1] + b',"message_id":',
            _client_head(service),
            headers.write_text(task.message_id) if task.message_id else b"",
            self._epoch,
            inner.write_names(task.via) if task.via else b"",
            headers.write_text(task.client_token) if task.client_token else b"",
            caller.encode() if caller != principal else b"",
            inner.write_mark(task.key) if task.key and self._policy_of(service).policy == "key" else b"",
        ]

    def _needs_no_key(self, principal: str) -> bool:
        rights = self._book.rights
        return rights is None or (not principal and "" in rights)

    def _may_not_pass_on(self, principal: str, task: headers.TaskRequest) -> bool:
        is_broker = principal.startswith(inner.BROKER)
        is_sound = is_broker == bool(task.via) and (is_broker or not task.principal)
        return not (is_sound or self._needs_no_key(principal))

    def _caller(self, principal: str, task: headers.TaskRequest) -> str:
        """Whose task it is: another broker passes on what is somebody else's, who has no name if it needs no key."""
        is_broker = principal.startswith(inner.BROKER)
        return task.principal if is_broker and not self._needs_no_key(principal) else principal

    def _answer(self, number: bytes, fields: Fields, answer: headers.TaskResponse) -> Frames:
        outcome = answer.outcome
        if outcome == "OK":
            verdict, tail = inner.OUTCOME_OK, inner.TAIL_OK
        elif outcome == "ERROR":
            reason = answer.reason[: limits.REASON_CHARS_MAX] or "the worker gave no reason"
            verdict, tail = inner.OUTCOME_ERROR, inner.tail("ERROR", reason)
        elif reasons.code_of(answer.reason) == reasons.CANCELLED:
            return _answer_unfinished(number, answer)
        else:
            raise ProtocolError(reasons.BAD_HEADER, "a worker's outcome is OK or ERROR, unless the task was cancelled")
        if not fields.keys() <= _ANSWER_FIELDS:
            extra = {name: value for name, value in fields.items() if name not in _ANSWER_FIELDS}
            tail = b"," + headers.write_fields(extra)[1:-1] + tail
        return [number, inner.ANSWER, verdict, tail]

    def _answer_of_delegate(self, number: bytes, fields: Fields, answer: headers.TaskResponse) -> Frames:
        if answer.outcome in ("OK", "ERROR"):
            return self._answer(number, fields, answer)
        return _answer_unfinished(number, answer)

    def _write_terms(
        self, service: str, timeout_ms: int | None, priority: int, credit: int, is_idempotent: bool, is_hedge: bool
    ) -> bytes:
        terms = self._policy_of(service).terms(timeout_ms, priority, credit)
        if is_hedge:
            # Its client has the first attempt to fall back on.
            terms = terms._replace(at_least_once=False, is_hedge=True)
        elif is_idempotent:
            terms = terms._replace(at_least_once=True)
        return inner.write_terms(terms)

    def _policy_of(self, service: str) -> ServicePolicy:
        return self._book.services.get(service, self._book.default_policy)

    # -- rights -------------------------------------------------------------------------------------------------

    def _lacks(self, principal: str, what: Literal["call", "serve"], services: list[str]) -> list[str]:
        """With which of these services it may not do this: some of them, if there are many."""
        everybody = self._book.rights
        if everybody is None:
            return []
        rights = everybody.get(principal, Rights())
        return not_allowed(rights.call if what == "call" else rights.serve, services)[:SERVICES_NAMED_MAX]

    # -- workers ------------------------------------------------------------------------------------------------

    def _turn_worker_away(self, number: bytes, services: list[str]) -> Frames:
        return [number, inner.REPLY, headers.write("ERROR", "RESPONSE", reason=self._not_served(services)), b""]

    def _connect(self, number: bytes, principal: str, wish: headers.ConnectRequest) -> Frames:
        if lacking := self._lacks(principal, "serve", wish.services):
            return _refuse_worker(number, principal, lacking)
        # A worker that offers more than we serve is accepted: tasks of the other services do not get past us.
        if not self._book.broker.serves_any(wish.services):
            return self._turn_worker_away(number, wish.services)
        terms = inner.SessionTerms(wish.slots, self._granted_ms(wish.heartbeat_ms))
        return [
            number,
            inner.CONNECT,
            wish.identity.encode(),
            inner.write_session_terms(terms),
            inner.write_names(wish.services),
            *self._config(wish),
            wish.worker_token.encode(),
        ]

    def _not_served(self, services: list[str]) -> str:
        """Why a broker for some services only does not take this, and which brokers would."""
        what = repr(services[0][:80]) if len(services) == 1 else "any of these services"
        elsewhere = self._book.where_else(services)[:BROKERS_NAMED_MAX]
        there = f"; {', '.join(elsewhere)} would" if elsewhere else ""
        sentence = f"broker {self._book.broker.identity} does not serve {what}{there}"
        return reasons.reason(reasons.NO_SERVICE, sentence)[: limits.REASON_CHARS_MAX]

    def _check_config(self, number: bytes, principal: str, wish: headers.CheckConfigRequest) -> Frames:
        if lacking := self._lacks(principal, "serve", wish.services):
            return _refuse_worker(number, principal, lacking)
        if not self._book.broker.serves_any(wish.services):
            return self._turn_worker_away(number, wish.services)
        return [number, inner.REPLY, *self._config(wish)]

    def _granted_ms(self, wish_ms: int | None) -> int:
        """A longer heartbeat than ours is granted; a shorter one is raised to ours."""
        return min(max(wish_ms or 0, self._book.heartbeat_ms), limits.HEARTBEAT_MS_MAX)

    def _config(self, wish: headers.ConnectRequest | headers.CheckConfigRequest) -> tuple[bytes, bytes]:
        """Header and body of a CONFIG; the body is empty for a worker that already has this config.

        The digest stands for what configs are made of here; which one a worker has, for which name and services, it has
        to show by the digest of the body.
        """
        body = self._book.worker_config(wish.identity, wish.services)
        known = wish.version == self._book.version and wish.digest == self._digest
        current = known and wish.body_digest == sha256(body).hexdigest()
        header = headers.write(
            "CONFIG",
            "RESPONSE",
            identity=wish.identity,
            heartbeat_ms=self._granted_ms(wish.heartbeat_ms),
            version=self._book.version,
            digest=self._digest,
            current=current or None,
        )
        return header, b"" if current else body


def _answer_unfinished(number: bytes, answer: headers.TaskResponse) -> Frames:
    verdict = inner.OUTCOME_REJECTED if answer.outcome == "REJECTED" else inner.OUTCOME_UNKNOWN
    return [number, inner.ANSWER, verdict, inner.tail(answer.outcome, answer.reason[: limits.REASON_CHARS_MAX])]


def _may_not(principal: str, what: Literal["call", "serve"], services: list[str]) -> str:
    """Why it may not do this with these services."""
    if not principal:
        sentence = f"whoever has no key may not {what} {', '.join(services)}"
        return reasons.reason(reasons.NOT_ALLOWED, sentence)[: limits.REASON_CHARS_MAX]
    named = " ".join(f"--{what} {quote(each)}" for each in services)
    remedy = f"an admin can allow it: famulus pass rights {quote(principal)} {named}"
    sentence = f"{principal} may not {what} {', '.join(services)}; {remedy}"
    return reasons.reason(reasons.NOT_ALLOWED, sentence)[: limits.REASON_CHARS_MAX]


def _refuse_worker(number: bytes, principal: str, services: list[str]) -> Frames:
    header = headers.write("ERROR", "RESPONSE", reason=_may_not(principal, "serve", services))
    return _refuse(number, header, SERVE, principal, services)


def _refuse(number: bytes, header: bytes, wanted: bytes, principal: str, services: list[str]) -> Frames:
    return [number, inner.REFUSE, header, wanted, principal.encode(), inner.write_names(services)]
