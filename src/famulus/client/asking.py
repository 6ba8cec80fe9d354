"""What an `AsyncClient` does between two awaits: submit, step the connection, plan the next step. No thread, no await.

Apart from `AsyncClient`, whose coroutines cannot be compiled: every task passes here twice.
"""

from __future__ import annotations

from asyncio import Future, get_running_loop
from time import monotonic_ns
from typing import Any, Final, NoReturn

from famulus.client import connection as rules
from famulus.client.connection import Connection
from famulus.client.settling import settle
from famulus.client.window import Window
from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.errors import Closed
from famulus.net.link import BATCH_MAX, Link
from famulus.net.sockets import descriptor
from famulus.wire.limits import BODY_BYTES_MAX

# Final, so that compiled code has it at hand instead of looking for it each time.
clock_ns: Final = monotonic_ns

KINDS_REMEMBERED = 1024


class Asking:
    def __init__(self, connection: Connection, timeout_ms: int) -> None:
        self.connection = connection
        self._timeout_ms = timeout_ms
        # Any: uvloop's has the same methods, but does not always return what the types of the standard library say.
        self._loop: Any = None
        self._timer: Any = None
        self._timer_ns = NEVER_NS
        self._step_planned = False
        self._closed = False
        self._checked_kinds: dict[tuple[str, Any, int], int] = {}

    def start(self) -> Any:
        """The loop that runs when it is first used is the one that it belongs to."""
        if self._closed:
            raise Closed("this client is closed")
        if self._loop is None:
            self._loop = get_running_loop()
            self.connection.watch, self.connection.forget = self._watch, self._forget
            self._watch(self.connection.link)
            # What happened before we watched was not told.
            self._loop.call_soon(self._follow_link)
        return self._loop

    def submit(
        self,
        service: str,
        body: Any,
        timeout: Any,
        priority: int,
        message_id: str | None,
        at_least_once: bool,
    ) -> Future[bytes]:
        """`body` and `timeout` are what the user gave, and are checked here."""
        # Most tasks of a client are of few kinds, and a kind needs to be checked only once.
        timeout_ms = self._checked_kinds.get((service, timeout, priority))
        if timeout_ms is None or message_id is not None:
            timeout_ms = self.checked(service, timeout, priority, message_id)
        loop = self._loop
        if loop is None:
            loop = self.start()
        session = self.connection.session
        content = self._admitted(body, at_least_once)
        future: Future[bytes] = loop.create_future()
        session.submit(clock_ns(), future, service, content, timeout_ms, priority, message_id or "", 0, at_least_once)
        if len(session) > 1:
            self.plan_step()
        elif self._step_planned:
            self.connection.send()
        else:
            self._step()  # nobody else is on the way whom it could wait for
        return future

    def submit_for(
        self,
        window: Window,
        place: int,
        now_ns: int,
        service: str,
        body: Any,
        timeout_ms: int,
        priority: int,
        at_least_once: bool,
    ) -> None:
        """One of many tasks; `plan_step` is to follow."""
        content = self._admitted(body, at_least_once)
        self.connection.session.submit(now_ns, window, service, content, timeout_ms, priority, "", place, at_least_once)

    def checked(self, service: str, timeout: Any, priority: int, message_id: str | None) -> int:
        """The time-out of such a task in milliseconds; raises what is wrong with it."""
        rules.checked_service(service, priority, message_id)
        timeout_ms = self._timeout_ms if timeout is None else rules.timeout_ms(timeout)
        if len(self._checked_kinds) >= KINDS_REMEMBERED:
            self._checked_kinds.clear()
        self._checked_kinds[service, timeout, priority] = timeout_ms
        return timeout_ms

    def plan_step(self) -> None:
        """Once per turn of the loop: whatever else is submitted in this turn leaves in the same batch."""
        if not self._step_planned:
            self._step_planned = True
            self._loop.call_soon(self._step)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._loop is not None:
            for link in self.connection.links:
                self._forget(link)
        if self._timer is not None:
            self._timer.cancel()
        settle(self.connection.close())

    # -- inside -------------------------------------------------------------------------------------------------

    def _admitted(self, body: Any, at_least_once: bool) -> bytes:
        """The body as bytes, if there is room for another task."""
        session = self.connection.session
        if self._closed or len(session) >= rules.IN_FLIGHT_MAX:
            self._refuse()
        content = body if isinstance(body, bytes) and len(body) <= BODY_BYTES_MAX else rules.checked_body(body)
        if at_least_once and not session.keep(len(content)):
            raise rules.kept_overload()
        return content

    def _refuse(self) -> NoReturn:
        if self._closed:
            raise Closed("this client is closed")
        raise rules.overload()

    def _watch(self, link: Link) -> None:
        self._loop.add_reader(descriptor(link.socket), self._step)
        self._loop.add_reader(descriptor(link.monitor), self._follow_link)

    def _forget(self, link: Link) -> None:
        for socket in (link.socket, link.monitor):
            self._loop.remove_reader(descriptor(socket))

    def _follow_link(self) -> None:
        if not self._closed:
            settle(self.connection.follow_link())
            self._step()  # what waited for the connection can leave now

    def _step(self) -> None:
        self._step_planned = False
        if self._closed:
            return
        connection = self.connection
        # Who has one task open hears of its end before we look whether there is more: he may have another one.
        done = connection.step(1 if len(connection.session) == 1 else BATCH_MAX)
        if done:
            settle(done)
        if connection.look_again:
            self.plan_step()
        due_ns = connection.next_due_ns
        # One timer for all deadlines: the loop is asked only when the next one comes earlier than planned.
        if due_ns < self._timer_ns:
            self._plan_timer(due_ns)

    def _plan_timer(self, due_ns: int) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        self._timer = self._loop.call_later(max(0, due_ns - clock_ns()) / NS_PER_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_ns = NEVER_NS
        self._step()
