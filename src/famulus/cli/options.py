"""Options that belong together, as one parameter: a dataclass stands for all of its fields."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import field, fields, is_dataclass
from functools import wraps
from typing import Annotated, Any

import typer

Command = Callable[..., None]


def option(what: str, *names: str, default: Any = None, **more: Any) -> Any:
    """A field of such a dataclass: an option with this help, and whatever else Typer takes."""
    return field(default=default, metadata={"option": typer.Option(*names, help=what, **more)})


def parameters_of(what: Callable[..., object]) -> list[inspect.Parameter]:
    """The parameters of a function, or of a dataclass."""
    options = {each.name: each.metadata.get("option") for each in fields(what)} if is_dataclass(what) else {}
    return [
        each.replace(annotation=Annotated[each.annotation, options[each.name]]) if options.get(each.name) else each
        for each in inspect.signature(what, eval_str=True).parameters.values()
    ]


def flat(function: Command) -> Command:
    """The command as Typer can read it: each dataclass among its parameters is replaced by its fields."""
    own = parameters_of(function)
    groups: dict[str, Any] = {each.name: each.annotation for each in own if is_dataclass(each.annotation)}

    def command(**values: Any) -> None:
        for name, kind in groups.items():
            values[name] = kind(**{each.name: values.pop(each.name) for each in parameters_of(kind)})
        function(**values)

    parameters = []
    for each in own:
        parameters += parameters_of(groups[each.name]) if each.name in groups else [each]
    return with_parameters(wraps(function)(command), parameters)


def with_parameters(command: Command, parameters: list[inspect.Parameter]) -> Command:
    """The same function, declared with these parameters, all of them keyword-only."""
    named = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in parameters]
    command.__signature__ = inspect.Signature(named)  # type: ignore[attr-defined]
    command.__annotations__ = {each.name: each.annotation for each in named}
    return command
