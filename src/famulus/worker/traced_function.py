"""A function as one that is called within a span of OpenTelemetry: see `famulus.tracing`."""

from __future__ import annotations

from typing import Any

from famulus import tracing
from famulus.wire import headers
from famulus.worker.service import Function, Service
from famulus.worker.task import read_task


def in_span(service: Service) -> Function:
    """Takes what a typed function takes, whatever the function of this service takes itself."""
    function = service.function

    def call(body: bytes, header: bytes, deadline_ns: int) -> Any:
        if service.is_typed:
            return function(body, header, deadline_ns)
        return function(body, read_task(header, body, deadline_ns)) if service.wants_task else function(body)

    def run(body: bytes, header: bytes, deadline_ns: int) -> Any:
        with _span(service.name, header):
            return call(body, header, deadline_ns)

    async def run_async(body: bytes, header: bytes, deadline_ns: int) -> Any:
        with _span(service.name, header):
            return await call(body, header, deadline_ns)

    return run_async if service.asynchronous else run


def _span(service: str, header: bytes) -> Any:
    request = headers.read_task_request(header)
    message_id, own = (request.message_id, request.headers) if request is not None else ("", {})
    return tracing.running(service, message_id, own if isinstance(own, dict) else {})
