"""A function as one that is called within a span of OpenTelemetry: see `famulus.tracing`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from typing import Any

from famulus import tracing
from famulus.core.clock import NS_PER_MS
from famulus.wire import headers
from famulus.worker.calls import Call
from famulus.worker.service import Function, Service
from famulus.worker.task import read_task


def in_span(service: Service) -> Function:
    """Takes what a typed function takes, whatever the function of this service takes itself."""
    function = service.function

    def do(call: Call) -> Any:
        if service.is_typed:
            return function(call)
        if not service.wants_task:
            return function(call.given.body)
        return function(call.given.body, read_task(call.given, call.deadline_ns, call.service.tell_progress))

    def run(call: Call) -> Any:
        with _span(service.name, call):
            return do(call)

    async def run_async(call: Call) -> Any:
        with _span(service.name, call):
            return await do(call)

    def run_stream(call: Call) -> Iterator[Any]:
        with _span(service.name, call), closing(do(call)) as parts:
            yield from parts

    async def run_async_stream(call: Call) -> AsyncIterator[Any]:
        with _span(service.name, call):
            async with aclosing(do(call)) as parts:
                async for part in parts:
                    yield part

    if service.streams:
        return run_async_stream if service.asynchronous else run_stream
    return run_async if service.asynchronous else run


def _span(service: str, call: Call) -> Any:
    request = headers.read_task_request(call.given.header)
    if request is None:
        return tracing.running(service, "", {})
    note_wait(request, call.deadline_ns)
    return tracing.running(service, request.message_id, headers_of(request))


def headers_of(request: headers.TaskRequest | None) -> dict[str, str]:
    """The client's own."""
    return request.headers if request is not None and isinstance(request.headers, dict) else {}


def note_wait(request: headers.TaskRequest, deadline_ns: int) -> None:
    """A span for its wait at the broker, known to a millisecond: of its whole time, so much was left when it came here.

    Before a second attempt it did not only wait. And a millisecond may be nothing but rounding.
    """
    left_ms = request.timeout_ms or 0
    waited_ms = request.allowed_ms - left_ms
    if request.attempt == 1 and left_ms and waited_ms > 1:
        wait = tracing.Waited(waited_ms * NS_PER_MS, deadline_ns - left_ms * NS_PER_MS)
        tracing.waited(request.service, request.message_id, headers_of(request), wait)
