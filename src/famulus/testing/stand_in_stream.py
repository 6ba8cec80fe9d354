"""A stream of a stand-in for a broker: its function goes on when its reader waits for a part, and no further."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from queue import SimpleQueue
from time import monotonic_ns
from typing import Any, Final, Protocol, cast

from famulus.client.async_stream import LoopMailbox
from famulus.client.parts import Mailbox
from famulus.client.stream import ThreadMailbox
from famulus.core.session.client import ClientSession, Done
from famulus.core.session.open_stream import OpenStream
from famulus.worker.calls import EXPIRED, STOPPED, Answer, Call, begin, failed, log_failure, to_bytes
from famulus.worker.outgoing_parts import OVER

_END: Final = object()


class AskedStream:
    """A client's side of one stream."""

    def __init__(
        self, peer: bytes, session: ClientSession, ended: list[Done], message_id: str, mailbox: Mailbox
    ) -> None:
        self.peer = peer
        self.session = session
        self.ended = ended
        self.message_id = message_id
        self.mailbox = mailbox

    def deliver(self) -> bool:
        """Whether there is anything new for its reader."""
        fed = self.session.take_fed()
        for task in fed:
            self.mailbox.on_news(task)
        ended = self.ended[:]
        self.ended.clear()
        for done in ended:
            self.mailbox(done)
        return bool(fed or ended) or self.mailbox.is_over


class Broker(Protocol):
    def go_on(self, asked: AskedStream) -> None:
        """Until there is something new for its reader."""
        ...


class StandInMailbox(ThreadMailbox):
    """Whoever waits does what there is to do."""

    asked: AskedStream

    def begin(self, broker: Broker, asked: AskedStream) -> None:
        self._broker, self.asked = broker, asked

    def wait(self) -> None:
        self._broker.go_on(self.asked)


class StandInLoopMailbox(LoopMailbox):
    asked: AskedStream

    def begin(self, broker: Broker, asked: AskedStream) -> None:
        self._broker, self.asked = broker, asked

    async def wait(self) -> None:
        self._broker.go_on(self.asked)
        await asyncio.sleep(0)


class RunningStream:
    """A worker's side: the generator of a function, and how far it may go."""

    def __init__(self, call: Call, opened: OpenStream) -> None:
        self.call = call
        self.opened = opened
        #: A thread is in its function.
        self.is_busy = False
        self._parts: Iterator[Any] | None = None

    @property
    def is_wanted(self) -> bool:
        return self.opened.sent < self.opened.last

    def next(self) -> bytes | Answer:
        """Its next part, or how it ended. Runs the function."""
        given = self.call.given
        if self.call.deadline_ns <= monotonic_ns():
            self.close()
            return Answer(given, EXPIRED if self._parts is None else OVER, b"")
        try:
            if self._parts is None:
                made = begin(self.call)
                self._parts = AsyncParts(made) if self.call.service.asynchronous else cast("Iterator[Any]", made)
            part = next(self._parts, _END)
            return Answer(given, "", b"") if part is _END else to_bytes(part)
        except BaseException as error:
            # Also SystemExit and KeyboardInterrupt, as in a real worker.
            answer, trace = failed(given, error)
            if trace:
                log_failure(self.call, trace)
            self.close()
            return answer

    def stop(self) -> Answer:
        """Nobody wants any more."""
        try:
            self.close()
        except BaseException as error:
            return failed(self.call.given, error)[0]
        return Answer(self.call.given, STOPPED, b"")

    def close(self) -> None:
        if self._parts is not None:
            self._parts.close()  # type: ignore[attr-defined]


class AsyncParts:
    """An asynchronous generator, one step after the other: in one task, on a loop in a thread of its own."""

    def __init__(self, generator: object) -> None:
        self._generator = cast("AsyncGenerator[Any, None]", generator)
        self._made: SimpleQueue[Any] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None
        self._go: asyncio.Event | None = None

    def __iter__(self) -> AsyncParts:
        return self

    def __next__(self) -> Any:
        if self._thread is None:
            self._thread = threading.Thread(target=self._serve, name="famulus-stand-in", daemon=True)
            self._thread.start()
        elif self._loop is not None and self._go is not None:
            self._loop.call_soon_threadsafe(self._go.set)
        part = self._made.get()
        if part is _END:
            raise StopIteration
        if isinstance(part, _Raised):
            raise part.error
        return part

    def _serve(self) -> None:
        asyncio.run(self._run())

    async def _run(self) -> None:
        self._loop, self._task, self._go = asyncio.get_running_loop(), asyncio.current_task(), asyncio.Event()
        try:
            async with aclosing(self._generator) as parts:
                async for part in parts:
                    self._made.put(part)
                    await self._go.wait()
                    self._go.clear()
        except BaseException as error:
            self._made.put(_Raised(error))
        else:
            self._made.put(_END)

    def close(self) -> None:
        if self._thread is not None and self._thread.is_alive() and self._loop is not None and self._task is not None:
            self._loop.call_soon_threadsafe(self._task.cancel)
            self._thread.join()


class _Raised:
    def __init__(self, error: BaseException) -> None:
        self.error = error
