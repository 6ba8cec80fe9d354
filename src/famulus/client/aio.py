"""`AsyncClient`: for asyncio. No thread: the event loop watches the socket, and whole batches are read at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from itertools import islice
from time import monotonic_ns
from types import TracebackType
from typing import Literal, NoReturn, overload

from famulus.client import connection as rules
from famulus.client.connection import DEFAULT_TIMEOUT_S, Connection, error_of
from famulus.client.settling import settle
from famulus.client.threads import Body
from famulus.client.window import Window
from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.errors import Closed, OutcomeError
from famulus.net.link import Link
from famulus.net.sockets import descriptor
from famulus.wire.limits import BODY_BYTES_MAX, PRIORITY_DEFAULT

KINDS_REMEMBERED = 1024


class AsyncClient:
    """Sends tasks to a broker and gets their outcomes. Any number of asyncio tasks may use one client at once.

    async with AsyncClient("tcp://127.0.0.1:7100") as client:
        answer = await client.request("echo", b"hello", timeout=2.0)

    Given several brokers, or told of others by its own, it goes to the next one when it loses the one it is with.
    It belongs to the event loop that runs when it is first used. Errors are those of `Client`.
    """

    def __init__(self, broker: str | Iterable[str] | None = None, *, timeout: float = DEFAULT_TIMEOUT_S) -> None:
        self._timeout_ms = rules.timeout_ms(timeout)
        self._connection = Connection(broker)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ns = NEVER_NS
        self._step_planned = False
        self._closed = False
        self._checked_kinds: dict[tuple[str, float | None, int], int] = {}

    @property
    def address(self) -> str:
        return self._connection.address

    @property
    def was_connected(self) -> bool:
        """Whether a broker has ever answered at that address, since the client went there."""
        return self._connection.link.was_up

    @property
    def addresses(self) -> list[str]:
        """All brokers that it knows: those it was given, then those that it was told of."""
        return self._connection.brokers.known

    # -- asking -------------------------------------------------------------------------------------------------

    async def request(
        self,
        service: str,
        body: Body = b"",
        *,
        timeout: float | None = None,
        priority: int = PRIORITY_DEFAULT,
        message_id: str | None = None,
        at_least_once: bool = False,
    ) -> bytes:
        """Send one task and wait for its outcome.

        answer = await client.request("thumbnail", image, timeout=10)
        """
        return await self._submit(service, body, timeout, priority, message_id, at_least_once)

    def submit(
        self,
        service: str,
        body: Body = b"",
        *,
        timeout: float | None = None,
        priority: int = PRIORITY_DEFAULT,
        message_id: str | None = None,
        at_least_once: bool = False,
    ) -> asyncio.Future[bytes]:
        """Send one task; the future gets its body or its error. Cancelling it only means not to hear the outcome.

        With at_least_once it is sent again if its broker is lost, and may then run more than once.

        future = client.submit("report", b"2026")
        """
        return self._submit(service, body, timeout, priority, message_id, at_least_once)

    def _submit(
        self,
        service: str,
        body: Body,
        timeout: float | None,
        priority: int,
        message_id: str | None,
        at_least_once: bool,
    ) -> asyncio.Future[bytes]:
        # Most tasks of a client are of few kinds, and a kind needs to be checked only once.
        milliseconds = self._checked_kinds.get((service, timeout, priority))
        if milliseconds is None or message_id is not None:
            milliseconds = self._checked(service, timeout, priority, message_id)
        loop = self._loop or self._started()
        session = self._connection.session
        if self._closed or len(session) >= rules.IN_FLIGHT_MAX:
            self._refuse()
        if type(body) is not bytes or len(body) > BODY_BYTES_MAX:
            body = rules.checked_body(body)
        if at_least_once and not session.keep(len(body)):
            raise rules.kept_overload()
        future: asyncio.Future[bytes] = loop.create_future()
        session.submit(
            monotonic_ns(), future, service, body, milliseconds, priority, message_id or "", 0, at_least_once
        )
        if len(session) == 1 and not self._step_planned:
            self._step()  # nobody else is on the way whom it could wait for
        elif not self._step_planned:
            self._plan_step(loop)
        return future

    @overload
    def map(
        self,
        service: str,
        bodies: Iterable[Body],
        *,
        window: int = ...,
        ordered: bool = ...,
        errors: Literal["raise"] = ...,
        timeout: float | None = ...,
        priority: int = ...,
        at_least_once: bool = ...,
    ) -> AsyncIterator[bytes]: ...

    @overload
    def map(
        self,
        service: str,
        bodies: Iterable[Body],
        *,
        window: int = ...,
        ordered: bool = ...,
        errors: Literal["return"],
        timeout: float | None = ...,
        priority: int = ...,
        at_least_once: bool = ...,
    ) -> AsyncIterator[bytes | OutcomeError]: ...

    def map(
        self,
        service: str,
        bodies: Iterable[Body],
        *,
        window: int = 1000,
        ordered: bool = True,
        errors: Literal["raise", "return"] = "raise",
        timeout: float | None = None,
        priority: int = PRIORITY_DEFAULT,
        at_least_once: bool = False,
    ) -> AsyncIterator[bytes | OutcomeError]:
        """Send a task per body, at most `window` of them open at once, and give the answers one by one.

        In the order of the bodies, or as they come with ordered=False. errors="return" gives errors in the place of
        answers instead of raising the first.

        async for answer in client.map("resize", images, window=100): ...
        """
        if window < 1:
            raise ValueError(f"a window is at least 1, not {window!r}")
        return self._map(service, bodies, window, ordered, errors, timeout, priority, at_least_once)

    async def _map(
        self,
        service: str,
        bodies: Iterable[Body],
        window_size: int,
        ordered: bool,
        errors: str,
        timeout: float | None,
        priority: int,
        at_least_once: bool,
    ) -> AsyncIterator[bytes | OutcomeError]:
        milliseconds = self._checked(service, timeout, priority, None)
        loop = self._started()
        session = self._connection.session
        something = asyncio.Event()
        window = Window(ordered, something.set)
        waiting = enumerate(bodies)
        opened = 0
        while True:
            now_ns = monotonic_ns()
            for number, body in islice(waiting, window_size - opened):
                if self._closed or len(session) >= rules.IN_FLIGHT_MAX:
                    self._refuse()
                if type(body) is not bytes or len(body) > BODY_BYTES_MAX:
                    body = rules.checked_body(body)
                if at_least_once and not session.keep(len(body)):
                    raise rules.kept_overload()
                session.submit(now_ns, window, service, body, milliseconds, priority, "", number, at_least_once)
                opened += 1
            self._plan_step(loop)
            if not opened:
                return
            while not (ready := window.take()):
                something.clear()
                await something.wait()
            opened -= len(ready)
            for done in ready:
                if done.outcome == "OK":
                    yield done.body
                elif errors == "return":
                    yield error_of(done)
                else:
                    raise error_of(done)

    # -- inside -------------------------------------------------------------------------------------------------

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._closed:
            raise Closed("this client is closed")
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._connection.watch, self._connection.forget = self._watch, self._forget
            self._watch(self._connection.link)
            # What happened before we watched was not told.
            self._loop.call_soon(self._follow_link)
        return self._loop

    def _watch(self, link: Link) -> None:
        assert self._loop is not None
        self._loop.add_reader(descriptor(link.socket), self._step)
        self._loop.add_reader(descriptor(link.monitor), self._follow_link)

    def _forget(self, link: Link) -> None:
        assert self._loop is not None
        for socket in (link.socket, link.monitor):
            self._loop.remove_reader(descriptor(socket))

    def _checked(self, service: str, timeout: float | None, priority: int, message_id: str | None) -> int:
        rules.checked_service(service, priority, message_id)
        milliseconds = self._timeout_ms if timeout is None else rules.timeout_ms(timeout)
        if len(self._checked_kinds) >= KINDS_REMEMBERED:
            self._checked_kinds.clear()
        self._checked_kinds[service, timeout, priority] = milliseconds
        return milliseconds

    def _refuse(self) -> NoReturn:
        if self._closed:
            raise Closed("this client is closed")
        raise rules.overload()

    def _plan_step(self, loop: asyncio.AbstractEventLoop) -> None:
        """Once per turn of the loop: whatever else is submitted in this turn leaves in the same batch."""
        if not self._step_planned:
            self._step_planned = True
            loop.call_soon(self._step)

    def _follow_link(self) -> None:
        if not self._closed:
            settle(self._connection.follow_link())
            self._step()  # what waited for the connection can leave now

    def _step(self) -> None:
        self._step_planned = False
        if self._closed:
            return
        settle(self._connection.step())
        self._plan()

    def _plan(self) -> None:
        """One timer for all deadlines: the loop is asked only when the next one comes earlier than planned."""
        due_ns = self._connection.next_due_ns
        if due_ns < self._timer_ns:
            assert self._loop is not None
            if self._timer is not None:
                self._timer.cancel()
            self._timer_ns = due_ns
            self._timer = self._loop.call_later(max(0, due_ns - monotonic_ns()) / NS_PER_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_ns = NEVER_NS
        self._step()

    async def close(self) -> None:
        """End what is open (as UNKNOWN, or REJECTED if it never left) and the connection. Closing twice is fine."""
        if self._closed:
            return
        self._closed = True
        if self._loop is not None:
            for link in self._connection.links:
                self._forget(link)
        if self._timer is not None:
            self._timer.cancel()
        settle(self._connection.close())

    async def __aenter__(self) -> AsyncClient:
        self._started()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()
