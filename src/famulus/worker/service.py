"""One service of a worker: a name and its function, with what has to be known about the function to call it."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Final

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.errors import SettingsError
from famulus.worker.batching import Batching
from famulus.worker.task import TellProgress
from famulus.worker.time_limit import NOT_CHOSEN

#: Takes `(body)` or `(body, task)`, or if it is typed, the `Call`; returns what `calls.to_bytes`
#: takes, or a coroutine that does, or a generator of such. With a `Batching` it takes lists, as that says.
Function = Callable[..., Any]

#: A call that takes less than this is quick.
QUICK_NS: Final = NS_PER_MS // 10
#: This many quick calls in a row make a service quick.
ENOUGH: Final = 32
#: More are not counted: a service that becomes slow must not be taken for a quick one for long.
MOST: Final = 64


class Service:
    __slots__ = (
        "asynchronous",
        "batching",
        "function",
        "is_limited",
        "is_typed",
        "name",
        "quick_calls",
        "quick_calls_max",
        "streams",
        "tell_progress",
        "time_limit_ns",
        "wants_task",
    )

    def __init__(
        self,
        name: str,
        function: Function,
        is_typed: bool = False,
        batching: Batching | None = None,
        time_limit_ns: int = NOT_CHOSEN,
    ) -> None:
        self.name = name
        self.function = function
        #: One for each quick call; a slow call takes away as many as would have fitted into its time.
        self.quick_calls = 0
        #: It wants more than the body; if it is typed, it reads the task itself.
        self.wants_task = is_typed or batching is not None or _wants_task(name, function)
        self.is_typed = is_typed
        #: Its tasks go to the function in batches.
        self.batching = batching
        #: How its functions say how far a task has got; None where nobody listens.
        self.tell_progress: TellProgress | None = None
        #: It yields the parts of a stream.
        self.streams = is_stream(function)
        self.asynchronous = is_async(function)
        #: How long a call may take.
        self.time_limit_ns = time_limit_ns
        self.is_limited = NOT_CHOSEN < time_limit_ns < NEVER_NS
        # One with a limit is never quick, since the I/O thread could not give up a call of its own; nor is a batch, nor
        # one that waits for credit.
        self.quick_calls_max = 0 if self.is_limited or batching is not None or self.streams else MOST

    def note(self, lasted_ns: int) -> None:
        """Count a call that took this long."""
        if lasted_ns < QUICK_NS:
            if self.quick_calls < self.quick_calls_max:
                self.quick_calls += 1
        else:
            self.quick_calls = max(0, self.quick_calls - lasted_ns // QUICK_NS)

    @property
    def is_quick(self) -> bool:
        """Whether handing its calls to another thread would cost more than the calls do."""
        return self.quick_calls >= ENOUGH


def is_async(function: Function) -> bool:
    """Whether it is called by the loop: it returns a coroutine, or is an async generator."""
    return _is(inspect.iscoroutinefunction, function) or _is(inspect.isasyncgenfunction, function)


def is_stream(function: Function) -> bool:
    """Whether it yields. One that returns an iterator does not."""
    return _is(inspect.isgeneratorfunction, function) or _is(inspect.isasyncgenfunction, function)


def _is(kind: Callable[[object], bool], function: Function) -> bool:
    # An object may be called by an async __call__, and so may the one inside of a partial.
    while isinstance(function, functools.partial):
        function = function.func
    return kind(function) or kind(getattr(function, "__call__", None))  # noqa: B004


def _wants_task(name: str, function: Function) -> bool:
    """True for `f(body, task)`. A second parameter with a default is the function's own, unless it is named task."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # some functions in C have no signature
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = [each for each in positional if each.default is each.empty]
    variadic = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    keywords = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    if len(needed) > 2 or keywords or not (positional or variadic):
        raise SettingsError(f"service {name!r}: its function must take (body) or (body, task), or arguments with types")
    return len(needed) == 2 or any(each.name == "task" for each in positional[1:2])
