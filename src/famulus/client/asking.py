"""What an `AsyncClient` does between two awaits: submit, step the connection, plan the next step. No thread, no await.

Separate from `AsyncClient`, whose coroutines cannot be compiled: every task passes through here twice.
"""

from __future__ import annotations

from asyncio import Future, get_running_loop
from contextlib import suppress
from time import monotonic_ns
from typing import Any, Final

from famulus.client import rules
from famulus.client.async_stream import LoopMailbox
from famulus.client.connection import Connection
from famulus.client.parts import Mailbox
from famulus.client.task_kinds import TaskKinds
from famulus.client.window import Window
from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.done import Done
from famulus.core.session.stream import Streamed
from famulus.core.session.task_kind import TaskKind
from famulus.errors import Closed, FamulusError
from famulus.wire.limits import BODY_BYTES_MAX

# Final, so that compiled code has it at hand instead of looking it up each time.
clock_ns: Final = monotonic_ns


class Asking:
    def __init__(self, connection: Connection, timeout_ms: int, retry: Any) -> None:
        self.connection = connection
        self.kinds = TaskKinds(timeout_ms, retry)
        # Any: uvloop's has the same methods, but does not always return what the types of the standard library say.
        self._loop: Any = None
        self._timer: Any = None
        self._timer_ns = NEVER_NS
        self._send_planned = False
        #: Futures, windows and mailboxes that nobody waits for any more.
        self._unwanted: set[object] = set()
        #: Streams of which more is wanted.
        self._wanting: list[Streamed] = []
        self._closed = False
        #: In a child that was forked: the loop of the parent, if it had one.
        self._parents_loop: Any = None
        self._copied = False

    def start(self) -> Any:
        """It belongs to the loop that is running when it is first used."""
        if self._closed:
            raise Closed("this client is closed")
        if self._loop is None:
            self._loop = self._own_loop()
            self.connection.watch, self.connection.forget = self._watch, self._forget
            self._watch(self.connection.line.fd)
            self._plan_timer()
        return self._loop

    def _own_loop(self) -> Any:
        if not self._copied:
            return get_running_loop()
        try:
            loop = get_running_loop()
        except RuntimeError:
            loop = self._parents_loop
        if loop is self._parents_loop:
            # It has one set of descriptors for both processes: the parent would get the events of what we watch.
            raise FamulusError("this process was forked, and cannot use its parent's event loop; run a new one")
        self.connection = self.connection.successor()
        self._timer_ns = NEVER_NS
        self._copied = False
        return loop

    def abandon(self) -> None:
        """In a child that was forked: the loop, the connection and all that is open are the parent's."""
        connection = self.connection
        connection.abandon()
        if self._loop is not None:
            self._parents_loop, self._loop = self._loop, None
        # Nothing is removed from the loop, which would remove it for the parent too.
        self._timer = None
        self._timer_ns = 0  # nothing is planned any more
        self._send_planned = False
        self._unwanted = set()
        self._wanting = []
        self._copied = True
        _orphan(connection.session.open_tokens())

    def submit(
        self, kind: TaskKind, body: Any, message_id: str | None = None, promise: Future[bytes] | None = None
    ) -> Future[bytes]:
        """`body` is what the user gave, and is checked here. `promise`: what is settled, if not a new one."""
        loop = self._loop
        if loop is None:
            loop = self.start()
        session = self.connection.session
        content = self._admitted(body, kind.at_least_once)
        future: Future[bytes] = loop.create_future() if promise is None else promise
        session.submit(clock_ns(), future, kind, content, message_id or "")
        if len(session) > 1:
            self.plan_send()
        else:
            self._send()  # no other task is open that it could leave together with
        return future

    def submit_for(self, window: Window, place: int, now_ns: int, kind: TaskKind, body: Any, message_id: str) -> None:
        """One of many tasks; the caller calls `plan_send` afterwards."""
        content = self._admitted(body, kind.at_least_once)
        self.connection.session.submit(now_ns, window, kind, content, message_id, place)

    def new_mailbox(self) -> LoopMailbox:
        return LoopMailbox()

    def submit_stream(self, mailbox: Mailbox, kind: TaskKind, body: Any, message_id: str | None) -> None:
        self.start()
        content = self._admitted(body, False)
        self.connection.session.submit(clock_ns(), mailbox, kind, content, message_id or "")
        self.plan_send()

    def want(self, stream: Streamed) -> None:
        """Its reader is about to have taken all that it asked for."""
        self._wanting.append(stream)
        self.plan_send()

    def leave(self, mailbox: Mailbox) -> None:
        """Nobody reads its stream any more. Any thread may find that out, if the stream was forgotten."""
        if not mailbox.is_over and not self._closed and self._loop is not None:
            self._unwanted.add(mailbox)
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self.plan_send)

    def plan_send(self) -> None:
        """Once per turn of the loop: whatever else is submitted in this turn leaves in the same batch."""
        if not self._send_planned:
            self._send_planned = True
            self._loop.call_soon(self._send)

    def cancel(self, token: object) -> None:
        """Nobody wants the tasks of this future or window any more."""
        if not self._closed and self._loop is not None and not self._loop.is_closed():
            self._unwanted.add(token)
            self.plan_send()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._unwanted:
            self._cancel_unwanted()
        if self._loop is not None:
            for line in self.connection.lines:
                self._forget(line.fd)
        if self._timer is not None:
            self._timer.cancel()
        _settle(self.connection.close())

    # -- inside -------------------------------------------------------------------------------------------------

    def _admitted(self, body: Any, at_least_once: bool) -> bytes:
        """The body as bytes, if there is room for another task."""
        session = self.connection.session
        if self._closed or len(session) >= rules.IN_FLIGHT_MAX:
            raise Closed("this client is closed") if self._closed else rules.overload()
        content = body if isinstance(body, bytes) and len(body) <= BODY_BYTES_MAX else rules.checked_body(body)
        if at_least_once and not session.keep(len(content)):
            raise rules.kept_overload()
        return content

    def _watch(self, fd: int) -> None:
        self._loop.add_reader(fd, self._step)

    def _forget(self, fd: int) -> None:
        self._loop.remove_reader(fd)

    def _send(self) -> None:
        self._send_planned = False
        if not self._closed:
            if self._unwanted:
                self._cancel_unwanted()
            if self._wanting:
                wanting, self._wanting = self._wanting, []
                self.connection.want(wanting)
            self.connection.send()
            self._plan_timer()

    def _cancel_unwanted(self) -> None:
        unwanted, self._unwanted = self._unwanted, set()
        _settle(self.connection.cancel(unwanted))

    def _step(self) -> None:
        if self._closed:
            return
        connection = self.connection
        done = connection.step()
        if connection.session.fed:
            for stream in connection.session.take_fed():
                stream.token.on_news(stream)  # type: ignore[attr-defined]
        if done:
            _settle(done)
        self._plan_timer()

    def _plan_timer(self) -> None:
        """One timer for all deadlines: the loop is asked only when the next one comes earlier than planned."""
        due_ns = self.connection.next_due_ns
        if due_ns >= self._timer_ns:
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ns = due_ns
        self._timer = self._loop.call_later(max(0, due_ns - clock_ns()) / NS_PER_S, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._timer_ns = NEVER_NS
        self._step()


def _settle(ended: list[Done]) -> None:
    for done in ended:
        token = done.token
        # Of many tasks it is a window; whether something is a future takes longer to find out.
        if isinstance(token, Window):
            token(done)
            continue
        if not isinstance(token, Future):
            token(done)  # type: ignore[operator]
            continue
        if token.done():
            continue  # cancelled: nobody wants to know
        if done.outcome == "OK":
            token.set_result(done.body)
        else:
            token.set_exception(rules.error_of(done))


def _orphan(tokens: list[object]) -> None:
    """In a child that was forked: these tasks are the parent's, and nobody here should wait for them."""
    for token in tokens:
        # The parent's loop may refuse calls from any thread but its own.
        with suppress(Exception):
            if isinstance(token, Window | Mailbox):
                token.orphan(rules.orphan_error())
            elif isinstance(token, Future) and not token.done():
                token.set_exception(rules.orphan_error())
                token.exception()  # retrieved, or it would be logged if nobody asks for it
