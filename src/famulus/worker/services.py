"""The services of a worker: which function stands for which name. Runs none of them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

from famulus.errors import SettingsError
from famulus.wire import limits
from famulus.worker.pace import Pace

#: Takes `(body)` or `(body, task)`; gives what `calls.to_bytes` takes, or a coroutine of that.
Function = Callable[..., Any]


class Service:
    """A name and its function, with what has to be known about the function to call it."""

    __slots__ = ("asynchronous", "function", "name", "pace", "wants_task")

    def __init__(self, name: str, function: Function) -> None:
        self.name = name
        self.function = function
        self.pace = Pace()
        self.wants_task = _wants_task(name, function)
        call = getattr(function, "__call__", None)  # noqa: B004 - an object may have an async __call__
        self.asynchronous = inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call)


class Services:
    def __init__(self) -> None:
        self._by_name: dict[str, Service] = {}

    def add(self, name: str, function: Function) -> None:
        _check_name(name)
        if name in self._by_name:
            raise SettingsError(f"service {name!r}: it has a function already")
        if not callable(function):
            raise SettingsError(f"service {name!r}: {function!r} is not a function")
        if len(self._by_name) >= limits.SERVICES_PER_WORKER_MAX:
            raise SettingsError(f"service {name!r}: a worker has at most {limits.SERVICES_PER_WORKER_MAX} services")
        self._by_name[name] = Service(name, function)

    def get(self, name: str) -> Service | None:
        return self._by_name.get(name)

    @property
    def names(self) -> list[str]:
        return list(self._by_name)

    def __iter__(self) -> Iterator[Service]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)


def _check_name(name: str) -> None:
    if not isinstance(name, str):
        raise SettingsError(f"service {name!r}: a name is a text; write @worker.service('name')")
    if not 1 <= len(name) <= limits.NAME_CHARS_MAX or any(ord(char) < 32 or ord(char) == 127 for char in name):
        raise SettingsError(
            f"service {name!r}: a name has 1 to {limits.NAME_CHARS_MAX} characters, none of them control characters"
        )


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
