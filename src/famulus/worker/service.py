"""One service of a worker: a name and its function, with what has to be known about the function to call it."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from famulus.errors import SettingsError
from famulus.worker.pace import Pace

#: Takes `(body)` or `(body, task)`; gives what `calls.to_bytes` takes, or a coroutine of that.
Function = Callable[..., Any]


class Service:
    __slots__ = ("asynchronous", "function", "name", "pace", "wants_task")

    def __init__(self, name: str, function: Function) -> None:
        self.name = name
        self.function = function
        self.pace = Pace()
        self.wants_task = _wants_task(name, function)
        call = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async __call__
        self.asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


def _wants_task(name: str, function: Function) -> bool:
    """True for `f(body, task)`. A second parameter with a default is the function's own, unless it is named task."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False  # some functions in C do not tell
    positional = [each for each in parameters if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
    needed = [each for each in positional if each.default is each.empty]
    variadic = any(each.kind is each.VAR_POSITIONAL for each in parameters)
    keywords = [each.name for each in parameters if each.kind is each.KEYWORD_ONLY and each.default is each.empty]
    if len(needed) > 2 or keywords or not (positional or variadic):
        raise SettingsError(f"service {name!r}: its function must take (body) or (body, task)")
    return len(needed) == 2 or any(each.name == "task" for each in positional[1:2])
