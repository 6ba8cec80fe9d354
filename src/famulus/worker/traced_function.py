"""A function as one that is called within a span of OpenTelemetry: see `famulus.tracing`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing, closing
from typing import Any

from famulus import tracing
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
        with _span(service.name, call.given.header):
            return do(call)

    async def run_async(call: Call) -> Any:
        with _span(service.name, call.given.header):
            return await do(call)

    def run_stream(call: Call) -> Iterator[Any]:
        with _span(service.name, call.given.header), closing(do(call)) as parts:
            yield from parts

    async def run_async_stream(call: Call) -> AsyncIterator[Any]:
        with _span(service.name, call.given.header):
            async with aclosing(do(call)) as parts:
                async for part in parts:
                    yield part

    if service.streams:
        return run_async_stream if service.asynchronous else run_stream
    return run_async if service.asynchronous else run


def _span(service: str, header: bytes) -> Any:
    request = headers.read_task_request(header)
    message_id, own = (request.message_id, request.headers) if request is not None else ("", {})
    return tracing.running(service, message_id, own if isinstance(own, dict) else {})
