"""Traces of OpenTelemetry: passed on with each task, with spans for the client that waits, for the time that the task
waits at the broker, and for the function.

All of it is off, and costs nothing, without the package (`pip install famulus[otel]`); and nothing is traced in a
program that has not set up a tracer.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from time import monotonic_ns, time_ns
from typing import Any, Final, TypeVar

try:
    from opentelemetry import context, propagate, trace
except ImportError:
    INSTALLED = False
else:
    INSTALLED = True

#: The environment names the tracer, or this version does not keep it where we look: then the package has to be asked.
_IN_ENVIRONMENT: Final = INSTALLED and (
    "OTEL_PYTHON_TRACER_PROVIDER" in os.environ or not hasattr(trace, "_TRACER_PROVIDER")
)

_Method = TypeVar("_Method", bound=Callable[..., Any])


def is_on() -> bool:
    """Whether this program has set up a tracer."""
    if not INSTALLED:
        return False
    # Asked for every task. As long as there is none, the public question searches the environment each time, which took
    # a tenth of a whole request.
    if not _IN_ENVIRONMENT and trace._TRACER_PROVIDER is None:
        return False
    return not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


# -- the client's side ----------------------------------------------------------------------------------------------


def waits(method: _Method) -> _Method:
    """For a method that sends a task and waits for its outcome: a span for that time."""
    if not INSTALLED:
        return method

    @wraps(method)
    def traced(*values: Any, **options: Any) -> Any:
        if not is_on():
            return method(*values, **options)
        with _asking(values, options):
            return method(*values, **_with_context(options))

    return traced  # type: ignore[return-value]


def awaits(method: _Method) -> _Method:
    """The same for asyncio."""
    if not INSTALLED:
        return method

    # No coroutine of its own, which would wait for the other one, when nothing is traced.
    @wraps(method)
    def traced(*values: Any, **options: Any) -> Any:
        return _awaited(method, values, options) if is_on() else method(*values, **options)

    return _known_as_coroutine(traced)  # type: ignore[return-value]


def _known_as_coroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    """For those who ask whether it has to be awaited, such as mocks."""
    if sys.version_info >= (3, 12):
        return inspect.markcoroutinefunction(function)
    from asyncio import coroutines

    function._is_coroutine = coroutines._is_coroutine  # type: ignore[attr-defined]
    return function


async def _awaited(method: Callable[..., Any], values: tuple[Any, ...], options: dict[str, Any]) -> Any:
    with _asking(values, options):
        return await method(*values, **_with_context(options))


def promises(method: _Method) -> _Method:
    """For a method that returns a future: a span until that is done."""
    if not INSTALLED:
        return method

    @wraps(method)
    def traced(*values: Any, **options: Any) -> Any:
        if not is_on():
            return method(*values, **options)
        span, future = _begin(method, values, options)
        future.add_done_callback(lambda done: _end(span, None if done.cancelled() else done.exception()))
        return future

    return traced  # type: ignore[return-value]


def streams(method: _Method) -> _Method:
    """For a method that returns a stream: a span until nobody reads that any more."""
    if not INSTALLED:
        return method

    @wraps(method)
    def traced(*values: Any, **options: Any) -> Any:
        if not is_on():
            return method(*values, **options)
        span, stream = _begin(method, values, options)
        stream.when_over(lambda error: _end(span, error))
        return stream

    return traced  # type: ignore[return-value]


def passes_on(method: _Method) -> _Method:
    """For a method that sends many tasks: they belong to the span that is current, and get none of their own."""
    if not INSTALLED:
        return method

    @wraps(method)
    def traced(*values: Any, **options: Any) -> Any:
        return method(*values, **(_with_context(options) if is_on() else options))

    return traced  # type: ignore[return-value]


def _with_context(options: dict[str, Any]) -> dict[str, Any]:
    carrier = dict(options.get("headers") or {})
    propagate.inject(carrier)
    return {**options, "headers": carrier or None}


def _begin(method: Callable[..., Any], values: tuple[Any, ...], options: dict[str, Any]) -> tuple[Any, Any]:
    """A span that goes on, and what the method returns, which is to end it."""
    span = _tracer().start_span(_name(values, options), kind=trace.SpanKind.CLIENT)
    token = context.attach(trace.set_span_in_context(span))
    try:
        return span, method(*values, **_with_context(options))
    except BaseException as error:
        _end(span, error)
        raise
    finally:
        context.detach(token)


@contextmanager
def _asking(values: tuple[Any, ...], options: dict[str, Any]) -> Iterator[None]:
    with _tracer().start_as_current_span(_name(values, options), kind=trace.SpanKind.CLIENT):
        yield


# -- the worker's side ----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Waited:
    """How long a task waited at its broker, and when that ended, by the clock of `time.monotonic_ns`."""

    for_ns: int
    until_ns: int


def waited(service: str, message_id: str, headers: Mapping[str, str], wait: Waited) -> None:
    """A span for the time before its function was called; it has ended, and nothing belongs to it."""
    until_ns = time_ns() - (monotonic_ns() - wait.until_ns)
    told, attributes = propagate.extract(dict(headers)), _about(service, message_id)
    span = _tracer().start_span(f"wait {service}", told, attributes=attributes, start_time=until_ns - wait.for_ns)
    span.end(until_ns)


@contextmanager
def running(service: str, message_id: str, headers: Mapping[str, str]) -> Iterator[None]:
    """While a function runs: a span that belongs to what the client was doing."""
    told, attributes = propagate.extract(dict(headers)), _about(service, message_id)
    with _tracer().start_as_current_span(f"run {service}", told, trace.SpanKind.SERVER, attributes):
        yield


@contextmanager
def running_batch(service: str, headers: Sequence[Mapping[str, str]]) -> Iterator[None]:
    """While a function runs for several tasks: a span of its own, with a link to what each client was doing."""
    links = [trace.Link(trace.get_current_span(propagate.extract(dict(each))).get_span_context()) for each in headers]
    attributes = {"famulus.service": service, "famulus.batch_tasks": len(headers)}
    with _tracer().start_as_current_span(f"run {service}", context.Context(), trace.SpanKind.SERVER, attributes, links):
        yield


def _about(service: str, message_id: str) -> dict[str, str]:
    return {"famulus.service": service, "famulus.message_id": message_id}


def _name(values: tuple[Any, ...], options: dict[str, Any]) -> str:
    """The service comes after self, if it does not come by its name."""
    service = values[1] if len(values) > 1 else options.get("service", "")
    return f"ask {getattr(service, 'name', service)}"


def _end(span: Any, error: BaseException | None) -> None:
    if error is not None:
        span.record_exception(error)
        span.set_status(trace.Status(trace.StatusCode.ERROR, str(error)))
    span.end()


def _tracer() -> Any:
    return trace.get_tracer("famulus")
