"""What the parameters of a function say about how it wants to be called: with a body, or with arguments of its own."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, get_args, get_type_hints

from famulus.errors import SettingsError
from famulus.worker.task import Task

BODY = (bytes, bytearray, memoryview)
ANYTHING = (inspect.Parameter.empty, Any, object)

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


class Parameters:
    def __init__(self, function: Callable[..., Any]) -> None:
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            signature = inspect.Signature([inspect.Parameter("body", inspect.Parameter.POSITIONAL_ONLY)])
        #: Why annotations that are texts could not be evaluated; they are texts then.
        self._unresolved = ""
        hints = self._hints(function)
        every = [
            each.replace(annotation=hints.get(each.name, each.annotation)) for each in signature.parameters.values()
        ]
        self._variadic = any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in every)
        self._every = every
        self._returns = hints.get("return", signature.return_annotation)
        #: The name of the parameter that gets the task; empty if none does.
        self.task = next((each.name for each in every if _is_task(each)), "")
        #: All others.
        self._own = [each for each in every if each.name != self.task]

    @property
    def are_typed(self) -> bool:
        """Whether it wants arguments of its own. `(body)` and `(body, task)` do not, with bytes or no types at all."""
        if self._variadic:
            return False
        if not self._every:
            return self._returns is not inspect.Signature.empty
        first, *others = self._every
        if not _may_be_body(first):
            return True
        needed = [each for each in others if each.default is each.empty]
        return any(each.annotation not in ANYTHING and not _is_task(each) for each in needed)

    @property
    def named(self) -> list[inspect.Parameter]:
        """The arguments of a typed function, each with its type."""
        for each in self._own:
            if each.annotation is each.empty:
                raise SettingsError(f"its parameter {each.name!r} has no type")
            if each.kind is each.POSITIONAL_ONLY:
                raise SettingsError(f"its parameter {each.name!r} has no name for callers")
        if self._unresolved:
            raise SettingsError(f"its types cannot be found: {self._unresolved}")
        return self._own

    @property
    def gives(self) -> Any:
        return Any if self._returns is inspect.Signature.empty else self._returns

    @property
    def first(self) -> Any:
        """The type of the first parameter, as far as one is known."""
        return self._every[0].annotation if self._every else Any

    @property
    def second(self) -> str:
        """The name of the second parameter."""
        return self._every[1].name if len(self._every) > 1 else ""

    def can_be_given(self, count: int) -> bool:
        """Whether it can be called with so many arguments, whatever they are."""
        positional = [each for each in self._every if each.kind in _POSITIONAL]
        needed = [each for each in self._every if each.default is each.empty and each.kind not in _VARIADIC]
        enough = len(positional) >= count or any(each.kind is each.VAR_POSITIONAL for each in self._every)
        return enough and len(needed) <= count and all(each.kind in _POSITIONAL for each in needed)

    def can_take(self, count: int) -> bool:
        """Whether it can be called with so many arguments, besides the task."""
        positional = [each for each in self._own if each.kind in (each.POSITIONAL_ONLY, each.POSITIONAL_OR_KEYWORD)]
        needed = [each for each in self._own if each.default is each.empty and each.kind is not each.VAR_POSITIONAL]
        return self._variadic or len(needed) <= count <= len(positional)

    def _hints(self, function: Any) -> dict[str, Any]:
        while isinstance(function, functools.partial):
            function = function.func
        if not (inspect.isroutine(function) or inspect.isclass(function)):
            function = type(function).__call__  # an object that can be called
        try:
            return get_type_hints(function, include_extras=True)
        except Exception as error:
            self._unresolved = str(error)
            return {}


def _is_task(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return parameter.name == "task" or annotation.rpartition(".")[2] == "Task"
    return annotation is Task or (parameter.name == "task" and annotation in ANYTHING)


def _may_be_body(parameter: inspect.Parameter) -> bool:
    annotation = parameter.annotation
    if isinstance(annotation, str):
        return "bytes" in annotation
    return parameter.name != "task" and (
        annotation in ANYTHING or annotation in BODY or any(each in BODY for each in get_args(annotation))
    )
