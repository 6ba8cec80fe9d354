"""`Client`: for programs with threads. One thread of its own does the I/O for all callers."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Generator, Iterable, Iterator, Mapping
from concurrent.futures import Future
from datetime import datetime
from functools import partial
from itertools import islice
from os import PathLike
from time import monotonic_ns
from typing import Any, Literal, TypedDict, Unpack, overload

from famulus import tracing
from famulus.client import rules
from famulus.client.connection import Connection
from famulus.client.named_bodies import NamedBodies
from famulus.client.own_headers import more_fields
from famulus.client.parts import CREDIT_DEFAULT, Mailbox, OnProgress, checked_credit
from famulus.client.progress import is_seen, shown
from famulus.client.rules import DEFAULT_TIMEOUT_S, error_of
from famulus.client.stream import Stream, ThreadMailbox
from famulus.client.task_kinds import TaskKinds
from famulus.client.typed_calls import CallOptions, StreamOptions, TypedCall, TypedMap
from famulus.client.waiters import Promise, Waiter, WaitingThread
from famulus.client.window import Window
from famulus.core.session.client import Streamed, Wish
from famulus.core.session.retry import LIKE_CLIENT, UNTIL_DEADLINE
from famulus.core.session.retry import Retry as Retry
from famulus.errors import BadAnswer, Closed, OutcomeError
from famulus.net import forks
from famulus.net.passes import read_pass
from famulus.net.waiting import Bell, Waiting
from famulus.typed.service import Gives, Service, Takes
from famulus.wire.limits import PRIORITY_DEFAULT

Body = bytes | bytearray | memoryview | str


class MapOptions(TypedDict, total=False):
    """What `map` takes, whatever it does with errors."""

    window: int
    ordered: bool
    timeout: float | None
    priority: int
    message_ids: Iterable[str] | None
    at_least_once: bool
    idempotent: bool
    hedge_after_s: float | None
    hedge: Literal["p95"] | None
    retry: Retry | None
    headers: Mapping[str, str] | None
    key: str
    delay_s: float | None
    at: datetime | float | None
    progress: bool


class Client:
    """Sends tasks to a broker and gets their outcomes. Any number of threads may use one client at once.

    with Client("tcp://127.0.0.1:7100") as client:
        answer = client.request("echo", b"hello", timeout=2.0)

    Given several brokers, or told of others by its own, it goes to the next one when it loses the one it is with.
    A task that does not end OK raises `TaskError` (the worker said so), `Rejected` (it did not run; trying again is
    safe) or `Unknown` (it may have run), all of them `FamulusError`s with message_id, outcome and reason.

    What is refused for the moment, because a broker stops, starts or has no room, is tried again until its time-out:
    `retry` says how often, and None not to. What may have run is tried again only if that does no harm, as the caller
    says with idempotent=True; then `hedge_after_s` or `hedge` let a second attempt run beside one that takes long.
    """

    def __init__(
        self,
        broker: str | Iterable[str] | None = None,
        *,
        timeout: float = DEFAULT_TIMEOUT_S,
        token: str | None = None,
        pass_file: str | PathLike[str] | None = None,
        retry: Retry | None = UNTIL_DEADLINE,
    ) -> None:
        self._kinds = TaskKinds(rules.timeout_ms(timeout), retry)
        # Guards the moment of closing: nobody may leave a wish, or ring, once the thread has looked for the last time.
        self._gate = threading.Lock()
        self._closed = self._copied = False
        #: All who wait for an outcome.
        self._waiters: set[Waiter | Window | Mailbox] = set()
        self._begin(Connection(broker, token=token, admitted_by=read_pass(pass_file)))
        forks.tell(self)

    def _begin(self, connection: Connection) -> None:
        self._connection = connection
        self._wishes: deque[Wish] = deque()
        #: Those that gave up waiting.
        self._unwanted: deque[object] = deque()
        #: Streams of which more is wanted.
        self._wanting: deque[Streamed] = deque()
        self._bell = Bell()
        self._waiting = Waiting()
        self._closing = False
        self._thread = threading.Thread(target=self._serve, name="famulus-client", daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        """The broker that it is with, or tries to reach."""
        return self._connection.address

    @property
    def was_connected(self) -> bool:
        """Whether a broker has ever answered at that address, since the client went there."""
        return self._connection.line.was_up

    @property
    def was_turned_away(self) -> bool:
        """Whether the broker at that address closed the connection, because it wants a key that we do not have."""
        return self._connection.line.turned_away > 0

    @property
    def addresses(self) -> list[str]:
        """All brokers that it knows: those it was given, then those that it was told of."""
        return self._connection.brokers.known

    # -- asking -------------------------------------------------------------------------------------------------

    @tracing.waits
    def request(
        self,
        service: str,
        body: Body = b"",
        *,
        timeout: float | None = None,
        priority: int = PRIORITY_DEFAULT,
        message_id: str | None = None,
        at_least_once: bool = False,
        idempotent: bool = False,
        hedge_after_s: float | None = None,
        hedge: Literal["p95"] | None = None,
        retry: Retry | None = LIKE_CLIENT,
        headers: Mapping[str, str] | None = None,
        key: str = "",
        delay_s: float | None = None,
        at: datetime | float | None = None,
    ) -> bytes:
        """Send one task and wait for its outcome.

        client.request("thumbnail", image, timeout=10)
        client.request("price", b"apples", idempotent=True, hedge_after_s=0.2)
        """
        if idempotent or hedge_after_s is not None or hedge is not None:
            retry = self._of_idempotent(retry, at_least_once, idempotent, hedge_after_s, hedge)
            at_least_once = True
        caller = WaitingThread()
        more = more_fields("", headers, key) if headers or key else b""
        delay_ms = rules.delay_ms(delay_s, at)
        self._wish(caller, service, body, timeout, priority, message_id, at_least_once, retry, more, delay_ms)
        return self._answer_for(caller)

    @overload
    def call(self, service: Service[Takes, Gives], argument: Takes, /, **options: Unpack[CallOptions]) -> Gives: ...

    @overload
    def call(self, service: Service[None, Gives], /, **options: Unpack[CallOptions]) -> Gives: ...

    @overload
    def call(self, service: str, arguments: Mapping[str, Any] = ..., /, **named: Any) -> Any: ...

    @tracing.waits
    def call(
        self,
        service: Service[Any, Any] | str,
        /,
        *arguments: Any,
        timeout: float | None = None,
        priority: int = PRIORITY_DEFAULT,
        message_id: str | None = None,
        at_least_once: bool = False,
        idempotent: bool = False,
        hedge_after_s: float | None = None,
        hedge: Literal["p95"] | None = None,
        retry: Retry | None = LIKE_CLIENT,
        headers: Mapping[str, str] | None = None,
        key: str = "",
        delay_s: float | None = None,
        at: datetime | float | None = None,
        **named: Any,
    ) -> Any:
        """Call a function of a worker with values instead of a body, and wait for its result.

        client.call("add", a=1, b=2)
        client.call(resize, Size(width=64), timeout=10)

        Arguments of the function that are called like one of ours come in a dictionary: call("add", {"timeout": 5}).
        """
        if idempotent or hedge_after_s is not None or hedge is not None:
            retry = self._of_idempotent(retry, at_least_once, idempotent, hedge_after_s, hedge)
            at_least_once = True
        typed = TypedCall(service, arguments, named)
        more = more_fields(typed.content_type, headers, key)
        delay_ms = rules.delay_ms(delay_s, at)
        caller = WaitingThread()
        self._wish(
            caller, typed.service, typed.body, timeout, priority, message_id, at_least_once, retry, more, delay_ms
        )
        return typed.result(self._answer_for(caller))

    @overload
    def submit(
        self, service: Service[Takes, Gives], argument: Takes, /, **options: Unpack[CallOptions]
    ) -> Future[Gives]: ...

    @overload
    def submit(self, service: Service[None, Gives], /, **options: Unpack[CallOptions]) -> Future[Gives]: ...

    @overload
    def submit(self, service: str, body: Body = ..., **options: Unpack[CallOptions]) -> Future[bytes]: ...

    @tracing.promises
    def submit(
        self,
        service: Service[Any, Any] | str,
        body: Any = b"",
        *,
        timeout: float | None = None,
        priority: int = PRIORITY_DEFAULT,
        message_id: str | None = None,
        at_least_once: bool = False,
        idempotent: bool = False,
        hedge_after_s: float | None = None,
        hedge: Literal["p95"] | None = None,
        retry: Retry | None = LIKE_CLIENT,
        headers: Mapping[str, str] | None = None,
        key: str = "",
        delay_s: float | None = None,
        at: datetime | float | None = None,
    ) -> Future[Any]:
        """Send one task; the future gets the body of its answer, or its error, and its `cancel` cancels the task.

        With at_least_once it is sent again if its broker is lost, and may then run more than once; with idempotent also
        if its worker is, or whatever else makes it UNKNOWN.

        future = client.submit("report", b"2026")
        future = client.submit(resize, Size(width=64))  # of the value that `call` would give
        """
        if idempotent or hedge_after_s is not None or hedge is not None:
            retry = self._of_idempotent(retry, at_least_once, idempotent, hedge_after_s, hedge)
            at_least_once = True
        delay_ms = rules.delay_ms(delay_s, at)
        if isinstance(service, Service):
            typed = TypedCall(service, () if service.takes is None else (body,), {})
            promise = Promise(self._waiters, self._cancel, typed.result)
            service, body = typed.service, typed.body
            more = more_fields(typed.content_type, headers, key)
        else:
            promise = Promise(self._waiters, self._cancel)
            more = more_fields("", headers, key) if headers or key else b""
        self._wish(promise, service, body, timeout, priority, message_id, at_least_once, retry, more, delay_ms)
        return promise

    @overload
    def map(
        self,
        service: Service[Takes, Gives],
        arguments: Iterable[Takes],
        /,
        *,
        errors: Literal["raise"] = ...,
        **options: Unpack[MapOptions],
    ) -> Iterator[Gives]: ...

    @overload
    def map(
        self,
        service: Service[Takes, Gives],
        arguments: Iterable[Takes],
        /,
        *,
        errors: Literal["return"],
        **options: Unpack[MapOptions],
    ) -> Iterator[Gives | OutcomeError | BadAnswer]: ...

    @overload
    def map(
        self, service: str, bodies: Iterable[Body], *, errors: Literal["raise"] = ..., **options: Unpack[MapOptions]
    ) -> Iterator[bytes]: ...

    @overload
    def map(
        self, service: str, bodies: Iterable[Body], *, errors: Literal["return"], **options: Unpack[MapOptions]
    ) -> Iterator[bytes | OutcomeError]: ...

    @tracing.passes_on
    def map(
        self,
        service: Service[Any, Any] | str,
        bodies: Iterable[Any],
        *,
        window: int = 1000,
        ordered: bool = True,
        errors: Literal["raise", "return"] = "raise",
        timeout: float | None = None,
        priority: int = PRIORITY_DEFAULT,
        message_ids: Iterable[str] | None = None,
        at_least_once: bool = False,
        idempotent: bool = False,
        hedge_after_s: float | None = None,
        hedge: Literal["p95"] | None = None,
        retry: Retry | None = LIKE_CLIENT,
        headers: Mapping[str, str] | None = None,
        key: str = "",
        delay_s: float | None = None,
        at: datetime | float | None = None,
        progress: bool = False,
    ) -> Iterator[Any]:
        """Send a task per body, at most `window` of them open at once, and give the answers one by one.

        In the order of the bodies, or as they come with ordered=False. The bodies are taken as they are needed, so
        they may be infinite. errors="return" gives errors in place of answers instead of raising the first.
        progress=True shows a bar on standard error, if that is a terminal. Whoever leaves early, or gets an error,
        cancels what is open.
        message_ids has an id for each body; a mistake in it is raised when what came before it has been answered.

        for answer in client.map("resize", images, window=100): ...
        for text in client.map(resize, [Size(width=64), Size(width=128)]): ...
        """
        if idempotent or hedge_after_s is not None or hedge is not None:
            retry = self._of_idempotent(retry, at_least_once, idempotent, hedge_after_s, hedge)
            at_least_once = True
        rules.checked_map(window, errors)
        typed = TypedMap(service) if isinstance(service, Service) else None
        name = service.name if isinstance(service, Service) else service
        content_type = "" if typed is None else typed.content_type
        more = more_fields(content_type, headers, key) if headers or key or content_type else b""
        # What is wrong with them is said now; how long the delay is, when a task is sent.
        self._kinds.of(name, timeout, priority, None, at_least_once, retry, more, rules.delay_ms(delay_s, at))
        named = NamedBodies(bodies if typed is None else typed.bodies(bodies), message_ids)

        def answers() -> Generator[bytes | OutcomeError, None, None]:
            # Held while there is nothing to give out; the I/O thread releases it once per batch, not once per task.
            nothing = threading.Lock()
            nothing.acquire()
            arrived = Window(ordered, partial(_let_go, nothing))
            self._waiters.add(arrived)
            checked = rules.checked_body
            opened = 0
            kind = None
            try:
                while True:
                    arrived.check()
                    if kind is None or at is not None:  # until then it is less each time
                        delay_ms = rules.delay_ms(delay_s, at)
                        kind = self._kinds.of(name, timeout, priority, None, at_least_once, retry, more, delay_ms)
                    wishes: list[Wish] = [
                        (arrived, kind, checked(body), message_id, number)
                        for number, body, message_id in islice(named.left, window - opened)
                    ]
                    if wishes:
                        self._leave_wishes(wishes, at_least_once)
                        opened += len(wishes)
                    if not opened:
                        named.check()
                        return
                    while not (ready := arrived.take()):
                        nothing.acquire()
                        arrived.check()
                    opened -= len(ready)
                    named.answered(ready)
                    for done in ready:
                        if done.outcome == "OK":
                            yield done.body
                        elif errors == "return":
                            yield error_of(done)
                        else:
                            raise error_of(done)
            finally:
                self._waiters.discard(arrived)
                if opened:
                    self._cancel(arrived, may_wait=False)

        came = shown(answers(), name, bodies) if progress and is_seen() else answers()
        return came if typed is None else typed.results(came, errors)

    @overload
    def stream(
        self, service: Service[Takes, Gives], argument: Takes, /, **options: Unpack[StreamOptions]
    ) -> Stream[Gives]: ...

    @overload
    def stream(self, service: Service[None, Gives], /, **options: Unpack[StreamOptions]) -> Stream[Gives]: ...

    @overload
    def stream(self, service: str, body: Body = ..., **options: Unpack[StreamOptions]) -> Stream[bytes]: ...

    @tracing.streams
    def stream(
        self,
        service: Service[Any, Any] | str,
        body: Any = b"",
        *,
        credit: int = CREDIT_DEFAULT,
        on_progress: OnProgress | None = None,
        timeout: float | None = None,
        priority: int = PRIORITY_DEFAULT,
        message_id: str | None = None,
        retry: Retry | None = LIKE_CLIENT,
        headers: Mapping[str, str] | None = None,
        key: str = "",
        delay_s: float | None = None,
        at: datetime | float | None = None,
    ) -> Stream[Any]:
        """Send one task that is answered with a stream, and give its parts one by one, as they come.

        At most `credit` parts are under way or wait here: whoever stops taking them stops the function that makes
        them. Whoever leaves early cancels the task. A function that gives one answer gives one part. on_progress is
        called by whoever waits for the parts, with how much is done (from 0 to 1) and a note, if the function says so.

        for line in client.stream("report", b"2026"): ...
        with client.stream(complete, Prompt("Once upon a time"), credit=16) as words: ...
        """
        checked_credit(credit)
        delay_ms = rules.delay_ms(delay_s, at)
        typed = None
        if isinstance(service, Service):
            typed = TypedCall(service, () if service.takes is None else (body,), {})
            service, body = typed.service, typed.body
        more = more_fields("" if typed is None else typed.content_type, headers, key)
        mailbox = self._new_mailbox()
        self._wish(mailbox, service, body, timeout, priority, message_id, False, retry, more, delay_ms, credit)
        return Stream(mailbox, self._want, self._leave, None if typed is None else typed.result, on_progress)

    # -- inside -------------------------------------------------------------------------------------------------

    def _of_idempotent(
        self,
        retry: Retry | None,
        at_least_once: bool,
        idempotent: bool,
        hedge_after_s: float | None,
        hedge: Literal["p95"] | None,
    ) -> Retry:
        """What goes for a task that may run twice, if this is one."""
        return rules.idempotent(self._kinds.retry_of(retry), at_least_once, idempotent, hedge_after_s, hedge)

    def _answer_for(self, caller: WaitingThread) -> bytes:
        try:
            return caller.wait()
        except BaseException:
            if not caller.is_over:
                self._cancel(caller)  # this thread was interrupted
            raise
        finally:
            self._waiters.discard(caller)

    def _cancel(self, waiter: object, may_wait: bool = True) -> None:
        """Nobody wants its tasks any more."""
        self._unwanted.append(waiter)
        # A generator may be closed in the middle of anything, also by a thread that has the gate: that will ring.
        if self._gate.acquire(blocking=may_wait):
            try:
                if not self._closing:
                    self._bell.ring()
            finally:
                self._gate.release()

    def _new_mailbox(self) -> ThreadMailbox:
        return ThreadMailbox()

    def _want(self, stream: Streamed) -> None:
        """Its reader is about to have taken all that it asked for."""
        self._wanting.append(stream)
        with self._gate:
            if not self._closing:
                self._bell.ring()

    def _leave(self, mailbox: Mailbox) -> None:
        """Nobody reads its stream any more."""
        self._waiters.discard(mailbox)
        if not mailbox.is_over:
            self._cancel(mailbox, may_wait=False)

    def _wish(
        self,
        waiter: Waiter | Mailbox,
        service: str,
        body: Body,
        timeout: float | None,
        priority: int,
        message_id: str | None,
        at_least_once: bool,
        retry: Retry | None,
        more: bytes,
        delay_ms: int = 0,
        credit: int = 0,
    ) -> None:
        kind = self._kinds.of(service, timeout, priority, message_id, at_least_once, retry, more, delay_ms, credit)
        wish = (waiter, kind, rules.checked_body(body), message_id or "", 0)
        self._waiters.add(waiter)
        try:
            self._leave_wishes([wish], at_least_once)
        except BaseException:
            self._waiters.discard(waiter)
            raise

    def _leave_wishes(self, wishes: list[Wish], at_least_once: bool) -> None:
        with self._gate:
            if self._closing:
                self._begin_anew()
            if len(self._connection.session) + len(self._wishes) + len(wishes) > rules.IN_FLIGHT_MAX:
                raise rules.overload()
            # Counted here and not by the I/O thread, so that the error is raised in the caller.
            if at_least_once and not self._connection.session.keep(sum(len(wish[2]) for wish in wishes)):
                raise rules.kept_overload()
            self._wishes.extend(wishes)
            self._bell.ring()

    def _begin_anew(self) -> None:
        """In a child that was forked: only a child that uses its copy gets a connection and a thread."""
        if self._closed or not self._copied:
            raise Closed("this client is closed")
        self._begin(self._connection.successor())
        self._copied = False

    def after_fork(self) -> None:
        """This is a copy: the connection, the thread and all that is open are the parent's."""
        # A thread that does not exist here may hold the old one.
        self._gate = threading.Lock()
        self._connection.abandon()
        self._waiting.close()
        self._bell.close()
        self._wishes = deque()
        waiters, self._waiters = self._waiters, set()
        error = rules.orphan_error()
        for waiter in waiters:
            waiter.orphan(error)
        self._closing = self._copied = True

    def _serve(self) -> None:
        """Whatever happens here, nobody may be left waiting."""
        wishes = self._wishes
        try:
            self._serve_until_closed()
        finally:
            # Otherwise this is a child that a callback has forked, and nothing here is its own.
            if self._wishes is wishes:
                with self._gate:
                    self._closing = True
                self._end()

    def _serve_until_closed(self) -> None:
        connection, session, wishes = self._connection, self._connection.session, self._wishes
        waiting, bell = self._waiting, self._bell
        waiting.watch(bell.fd)
        connection.watch, connection.forget = waiting.watch, waiting.forget
        waiting.watch(connection.line.fd)
        while not self._closing:
            if bell.fd in waiting.wait(connection.next_due_ns):
                bell.answer()
            now_ns = monotonic_ns()
            if wishes:
                session.submit_all(now_ns, wishes)
            if self._unwanted:
                self._cancel_unwanted()
            if self._wanting:
                self._tell_of_wanting()
            ended = connection.step()
            if session.fed:
                for stream in session.take_fed():
                    stream.token.on_news(stream)  # type: ignore[attr-defined]
            for done in ended:
                done.token(done)  # type: ignore[operator]
            if self._wishes is not wishes:
                return  # a callback has forked, and this is the child
        waiting.close()

    def _cancel_unwanted(self) -> None:
        unwanted = self._unwanted
        tokens = {unwanted.popleft() for _ in range(len(unwanted))}
        for done in self._connection.cancel(tokens):
            done.token(done)  # type: ignore[operator]

    def _tell_of_wanting(self) -> None:
        wanting = self._wanting
        self._connection.want([wanting.popleft() for _ in range(len(wanting))])

    def _end(self) -> None:
        now_ns = monotonic_ns()
        self._connection.session.submit_all(now_ns, self._wishes)
        self._cancel_unwanted()
        for done in self._connection.close():
            done.token(done)  # type: ignore[operator]

    def close(self) -> None:
        """End what is open (as UNKNOWN, or REJECTED if it never left) and the connection. Closing twice is fine."""
        with self._gate:
            if self._closed:
                return
            self._closed = self._closing = True
            if self._copied:
                return  # never used in this child
            self._bell.ring()
        self._thread.join()
        self._bell.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _let_go(lock: threading.Lock) -> None:
    # Only the I/O thread releases it, so if this says that it is locked, it still is.
    if lock.locked():
        lock.release()
