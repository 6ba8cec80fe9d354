"""One call of a function that yields, and what becomes of it: parts, and at the end an answer, whatever it does.

A part that nobody wants yet is kept, and the function waits at the `yield` that gave it. So one that has nothing more
to give ends without any credit. If nobody wants any more, the generator is closed where it waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator
from contextlib import aclosing, closing, suppress
from time import monotonic_ns
from typing import Final, Protocol, cast

from famulus.wire import reasons
from famulus.worker.calls import EXPIRED, STOPPED, Answer, Call, begin, failed, log_failure, to_bytes
from famulus.worker.outgoing_parts import OutgoingParts, StreamCall

NO_CREDIT: Final = reasons.reason(reasons.BAD_ARGUMENTS, "this service gives a stream: ask for it with stream()")

#: After so many parts of one stream the loop does something else, if there is anything.
TURN: Final = 64


class Outlet(Protocol):
    """Where the parts go."""

    def are_wanted(self) -> bool:
        """Whether there is credit for one more, and somebody to read it."""
        ...

    def wait(self) -> str:
        """Wait until one more is wanted. Why none ever will be, if that is so."""
        ...

    def add(self, body: bytes) -> None:
        """One more, which is wanted."""
        ...


def perform_stream(call: StreamCall) -> Answer:
    try:
        answer, trace = attempt_stream(call, call.parts)
    finally:
        call.parts.over.set()
    if trace:
        log_failure(call, trace)
    return answer


def attempt_stream(call: Call, outlet: Outlet) -> tuple[Answer, str]:
    """The answer, and the traceback of what was raised."""
    given = call.given
    if call.deadline_ns <= monotonic_ns():
        return Answer(given, EXPIRED, b""), ""
    try:
        with closing(cast("Generator[object, None, None]", begin(call))) as generator:
            for part in generator:
                body = to_bytes(part)
                if not outlet.are_wanted() and (refusal := outlet.wait()):
                    return Answer(given, refusal, b""), ""
                outlet.add(body)
        return Answer(given, "", b""), ""
    except BaseException as error:
        # Also SystemExit and KeyboardInterrupt, as for a plain function.
        return failed(given, error)


async def answer_of_stream(call: StreamCall) -> Answer:
    """Like `perform_stream`, with awaits in the middle."""
    given, parts = call.given, call.parts
    try:
        if call.deadline_ns <= monotonic_ns():
            return Answer(given, EXPIRED, b"")
        async with aclosing(cast("AsyncGenerator[object, None]", begin(call))) as generator:
            async for part in generator:
                body = to_bytes(part)
                if not parts.are_wanted() and (refusal := await _wait(parts)):
                    return Answer(given, refusal, b"")
                parts.add(body)
                if not parts.added % TURN:
                    await asyncio.sleep(0)
        return Answer(given, "", b"")
    except BaseException as error:
        if given.is_cancelled and isinstance(error, asyncio.CancelledError):
            return Answer(given, STOPPED, b"")  # nothing failed here
        answer, trace = failed(given, error)
        if trace:
            log_failure(call, trace)
        return answer
    finally:
        parts.over.set()


def _wake(loop: asyncio.AbstractEventLoop, news: asyncio.Event) -> None:
    loop.call_soon_threadsafe(news.set)


async def _wait(parts: OutgoingParts) -> str:
    """Like `OutgoingParts.wait`."""
    news = asyncio.Event()
    loop = asyncio.get_running_loop()
    parts.wake = lambda: _wake(loop, news)
    try:
        while True:
            news.clear()
            refusal = parts.refusal()
            if refusal or parts.are_wanted():
                return refusal
            with suppress(TimeoutError):
                await asyncio.wait_for(news.wait(), parts.seconds_left)
    finally:
        parts.wake = None
