"""`AsyncClient`: for asyncio. No thread: the event loop watches the socket, and whole batches are read at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping
from datetime import datetime
from itertools import islice
from os import PathLike
from time import monotonic_ns
from typing import Any, Literal, Unpack, overload

from famulus import tracing
from famulus.client import rules
from famulus.client.asking import Asking
from famulus.client.async_stream import AsyncStream
from famulus.client.connection import Connection
from famulus.client.named_bodies import NamedBodies
from famulus.client.own_headers import more_fields
from famulus.client.parts import CREDIT_DEFAULT, OnProgress, checked_credit
from famulus.client.progress import is_seen, shown_while_awaited
from famulus.client.rules import DEFAULT_TIMEOUT_S, error_of
from famulus.client.threads import Body, MapOptions
from famulus.client.typed_calls import CallOptions, StreamOptions, TypedCall, TypedMap
from famulus.client.window import Window
from famulus.core.session.retry import LIKE_CLIENT, UNTIL_DEADLINE, Retry
from famulus.errors import BadAnswer, OutcomeError
from famulus.net import forks
from famulus.net.passes import read_pass
from famulus.typed.service import Gives, Service, Takes
from famulus.wire.limits import PRIORITY_DEFAULT


class _Promise(asyncio.Future[bytes]):
    """A future of a task, which is cancelled with it."""

    def __init__(self, asking: Asking) -> None:
        super().__init__(loop=asking.start())
        self._asking = asking

    def cancel(self, msg: Any = None) -> bool:
        is_cancelled = super().cancel(msg)
        if is_cancelled:
            self._asking.cancel(self)
        return is_cancelled


class AsyncClient:
    """Sends tasks to a broker and gets their outcomes. Any number of asyncio tasks may use one client at once.

    async with AsyncClient("tcp://127.0.0.1:7100") as client:
        answer = await client.request("echo", b"hello", timeout=2.0)

    Given several brokers, or told of others by its own, it goes to the next one when it loses the one it is with.
    It belongs to the event loop that runs when it is first used; in a child that is forked, to another one. It raises
    the same errors as `Client`.
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
        timeout_ms = rules.timeout_ms(timeout)
        self._asking = Asking(Connection(broker, token=token, admitted_by=read_pass(pass_file)), timeout_ms, retry)
        forks.tell(self)

    @property
    def address(self) -> str:
        """The broker that it is with, or tries to reach."""
        return self._asking.connection.address

    @property
    def was_connected(self) -> bool:
        """Whether a broker has ever answered at that address, since the client went there."""
        return self._asking.connection.line.was_up

    @property
    def addresses(self) -> list[str]:
        """All brokers that it knows: those it was given, then those that it was told of."""
        return self._asking.connection.brokers.known

    # -- asking -------------------------------------------------------------------------------------------------

    @tracing.awaits
    async def request(
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
        """Send one task and wait for its outcome. Whoever is cancelled meanwhile cancels the task.

        answer = await client.request("thumbnail", image, timeout=10)
        answer = await client.request("price", b"apples", idempotent=True, hedge_after_s=0.2)
        """
        if idempotent or hedge_after_s is not None or hedge is not None:
            retry = self._of_idempotent(retry, at_least_once, idempotent, hedge_after_s, hedge)
            at_least_once = True
        more = more_fields("", headers, key) if headers or key else b""
        delay_ms = rules.delay_ms(delay_s, at)
        asking = self._asking
        kind = asking.kinds.of(service, timeout, priority, message_id, at_least_once, retry, more, delay_ms)
        asked = asking.submit(kind, body, message_id)
        try:
            return await asked
        except asyncio.CancelledError:
            self._asking.cancel(asked)
            raise

    @overload
    async def call(
        self, service: Service[Takes, Gives], argument: Takes, /, **options: Unpack[CallOptions]
    ) -> Gives: ...

    @overload
    async def call(self, service: Service[None, Gives], /, **options: Unpack[CallOptions]) -> Gives: ...

    @overload
    async def call(self, service: str, arguments: Mapping[str, Any] = ..., /, **named: Any) -> Any: ...

    @tracing.awaits
    async def call(
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

        await client.call("add", a=1, b=2)
        await client.call(resize, Size(width=64), timeout=10)

        Arguments of the function that are called like one of ours come in a dictionary: call("add", {"timeout": 5}).
        """
        if idempotent or hedge_after_s is not None or hedge is not None:
            retry = self._of_idempotent(retry, at_least_once, idempotent, hedge_after_s, hedge)
            at_least_once = True
        typed = TypedCall(service, arguments, named)
        more = more_fields(typed.content_type, headers, key)
        delay_ms = rules.delay_ms(delay_s, at)
        asking = self._asking
        kind = asking.kinds.of(typed.service, timeout, priority, message_id, at_least_once, retry, more, delay_ms)
        asked = asking.submit(kind, typed.body, message_id)
        try:
            body = await asked
        except asyncio.CancelledError:
            self._asking.cancel(asked)
            raise
        return typed.result(body)

    @overload
    def submit(
        self, service: Service[Takes, Gives], argument: Takes, /, **options: Unpack[CallOptions]
    ) -> asyncio.Future[Gives]: ...

    @overload
    def submit(self, service: Service[None, Gives], /, **options: Unpack[CallOptions]) -> asyncio.Future[Gives]: ...

    @overload
    def submit(self, service: str, body: Body = ..., **options: Unpack[CallOptions]) -> asyncio.Future[bytes]: ...

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
    ) -> asyncio.Future[Any]:
        """Send one task; the future gets the body of its answer, or its error. Cancelling it cancels the task.

        With at_least_once it is sent again if its broker is lost, and may then run more than once; with idempotent also
        if its worker is, or whatever else makes it UNKNOWN.

        future = client.submit("report", b"2026")
        future = client.submit(resize, Size(width=64))  # of the value that `call` would give
        """
        if idempotent or hedge_after_s is not None or hedge is not None:
            retry = self._of_idempotent(retry, at_least_once, idempotent, hedge_after_s, hedge)
            at_least_once = True
        delay_ms = rules.delay_ms(delay_s, at)
        asking = self._asking
        if isinstance(service, Service):
            typed = TypedCall(service, () if service.takes is None else (body,), {})
            more = more_fields(typed.content_type, headers, key)
            kind = asking.kinds.of(typed.service, timeout, priority, message_id, at_least_once, retry, more, delay_ms)
            return _value_of(asking.submit(kind, typed.body, message_id, _Promise(asking)), typed)
        more = more_fields("", headers, key) if headers or key else b""
        kind = asking.kinds.of(service, timeout, priority, message_id, at_least_once, retry, more, delay_ms)
        return asking.submit(kind, body, message_id, _Promise(asking))

    @overload
    def map(
        self,
        service: Service[Takes, Gives],
        arguments: Iterable[Takes],
        /,
        *,
        errors: Literal["raise"] = ...,
        **options: Unpack[MapOptions],
    ) -> AsyncIterator[Gives]: ...

    @overload
    def map(
        self,
        service: Service[Takes, Gives],
        arguments: Iterable[Takes],
        /,
        *,
        errors: Literal["return"],
        **options: Unpack[MapOptions],
    ) -> AsyncIterator[Gives | OutcomeError | BadAnswer]: ...

    @overload
    def map(
        self, service: str, bodies: Iterable[Body], *, errors: Literal["raise"] = ..., **options: Unpack[MapOptions]
    ) -> AsyncIterator[bytes]: ...

    @overload
    def map(
        self, service: str, bodies: Iterable[Body], *, errors: Literal["return"], **options: Unpack[MapOptions]
    ) -> AsyncIterator[bytes | OutcomeError]: ...

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
    ) -> AsyncIterator[Any]:
        """Send a task per body, at most `window` of them open at once, and give the answers one by one.

        In the order of the bodies, or as they come with ordered=False. errors="return" gives errors in place of
        answers instead of raising the first. With progress=True a bar on standard error, if that is a terminal.
        Whoever leaves early, or gets an error, cancels what is open.
        message_ids has an id for each body; a mistake in it is raised when what came before it has been answered.

        async for answer in client.map("resize", images, window=100): ...
        async for text in client.map(resize, [Size(width=64), Size(width=128)]): ...
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
        self._asking.kinds.of(name, timeout, priority, None, at_least_once, retry, more, rules.delay_ms(delay_s, at))
        named = NamedBodies(bodies if typed is None else typed.bodies(bodies), message_ids)

        async def answers() -> AsyncGenerator[bytes | OutcomeError, None]:
            asking = self._asking
            asking.start()
            something = asyncio.Event()
            arrived = Window(ordered, something.set)
            opened = 0
            kind = None
            try:
                while True:
                    arrived.check()
                    if kind is None or at is not None:  # until then it is less each time
                        delay_ms = rules.delay_ms(delay_s, at)
                        kind = asking.kinds.of(name, timeout, priority, None, at_least_once, retry, more, delay_ms)
                    now_ns = monotonic_ns()
                    for number, body, message_id in islice(named.left, window - opened):
                        asking.submit_for(arrived, number, now_ns, kind, body, message_id)
                        opened += 1
                    asking.plan_send()
                    if not opened:
                        named.check()
                        return
                    while not (ready := arrived.take()):
                        something.clear()
                        await something.wait()
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
                if opened:
                    asking.cancel(arrived)

        came = shown_while_awaited(answers(), name, bodies) if progress and is_seen() else answers()
        return came if typed is None else typed.results_awaited(came, errors)

    @overload
    def stream(
        self, service: Service[Takes, Gives], argument: Takes, /, **options: Unpack[StreamOptions]
    ) -> AsyncStream[Gives]: ...

    @overload
    def stream(self, service: Service[None, Gives], /, **options: Unpack[StreamOptions]) -> AsyncStream[Gives]: ...

    @overload
    def stream(self, service: str, body: Body = ..., **options: Unpack[StreamOptions]) -> AsyncStream[bytes]: ...

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
    ) -> AsyncStream[Any]:
        """Send one task that is answered with a stream, and give its parts one by one, as they come.

        At most `credit` parts are under way or wait here: whoever stops taking them stops the function that makes
        them. Whoever leaves early cancels the task. A function that gives one answer gives one part. on_progress is
        called by whoever waits for the parts, with how much is done (from 0 to 1) and a note, if the function says so.

        async for line in client.stream("report", b"2026"): ...
        async with client.stream(complete, Prompt("Once upon a time"), credit=16) as words: ...
        """
        checked_credit(credit)
        delay_ms = rules.delay_ms(delay_s, at)
        typed = None
        if isinstance(service, Service):
            typed = TypedCall(service, () if service.takes is None else (body,), {})
            service, body = typed.service, typed.body
        more = more_fields("" if typed is None else typed.content_type, headers, key)
        asking = self._asking
        kind = asking.kinds.of(service, timeout, priority, message_id, False, retry, more, delay_ms, credit)
        mailbox = asking.new_mailbox()
        asking.submit_stream(mailbox, kind, body, message_id)
        return AsyncStream(mailbox, asking.want, asking.leave, None if typed is None else typed.result, on_progress)

    def _of_idempotent(
        self,
        retry: Retry | None,
        at_least_once: bool,
        idempotent: bool,
        hedge_after_s: float | None,
        hedge: Literal["p95"] | None,
    ) -> Retry:
        """What goes for a task that may run twice, if this is one."""
        return rules.idempotent(self._asking.kinds.retry_of(retry), at_least_once, idempotent, hedge_after_s, hedge)

    # -- beginning and end --------------------------------------------------------------------------------------

    async def close(self) -> None:
        """End what is open (as UNKNOWN, or REJECTED if it never left) and the connection. Closing twice is fine."""
        self._asking.close()

    def after_fork(self) -> None:
        self._asking.abandon()

    async def __aenter__(self) -> AsyncClient:
        self._asking.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


def _value_of(answer: asyncio.Future[bytes], typed: TypedCall) -> asyncio.Future[Any]:
    """A future of the value that is in an answer. Cancelling it cancels the answer, too."""
    value: asyncio.Future[Any] = answer.get_loop().create_future()

    def settle(answered: asyncio.Future[bytes]) -> None:
        error = None if answered.cancelled() else answered.exception()
        if value.done():
            return  # cancelled: nobody wants to know
        if answered.cancelled():
            value.cancel()
        elif error is not None:
            value.set_exception(error)
        else:
            try:
                value.set_result(typed.result(answered.result()))
            except BadAnswer as bad:
                value.set_exception(bad)

    def cancel(settled: asyncio.Future[Any]) -> None:
        if settled.cancelled():
            answer.cancel()

    answer.add_done_callback(settle)
    value.add_done_callback(cancel)
    return value
