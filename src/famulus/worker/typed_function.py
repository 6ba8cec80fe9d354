"""A function with arguments of its own, as one that takes a body: what reads its arguments and writes its result.

Whatever is wrong with the arguments is found before the function is called.
"""

from __future__ import annotations

import inspect
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    AsyncIterator,
    Callable,
    Generator,
    Iterable,
    Iterator,
)
from contextlib import aclosing, closing
from typing import Any, Final, get_args, get_origin

import msgspec

from famulus.errors import SettingsError
from famulus.typed.codecs import JSON, NO_ARGUMENTS, BadValue, Reader, encode, known
from famulus.typed.service import Service as TypedService
from famulus.wire import headers
from famulus.worker.calls import BadArguments, Call
from famulus.worker.parameters import ANYTHING, Parameters
from famulus.worker.service import Function, is_async, is_stream
from famulus.worker.task import read_task

#: What a function that yields may say that it gives.
_STREAMS: Final = (Iterator, Iterable, Generator, AsyncIterator, AsyncIterable, AsyncGenerator)

#: From the body to the positional and the named arguments.
_Read = Callable[[bytes, str], tuple[tuple[Any, ...], dict[str, Any]]]


def by_names(name: str, function: Function, parameters: Parameters) -> Function:
    """A function whose arguments come by their names, in one JSON object."""
    try:
        wanted = msgspec.defstruct(
            name, [_field(each) for each in parameters.named], forbid_unknown_fields=True, kw_only=True
        )
        reader = Reader(wanted)
        Reader(_part_of(parameters.gives) if is_stream(function) else parameters.gives)
    except (SettingsError, TypeError) as error:
        raise SettingsError(f"service {name!r}: {error}") from None
    names = [each.name for each in parameters.named]

    def read(body: bytes, content_type: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        values = reader.read(body or NO_ARGUMENTS[content_type], content_type)
        given = {each: getattr(values, each) for each in names}
        return (), {each: value for each, value in given.items() if value is not msgspec.UNSET}

    return _body_function(function, read, JSON, parameters.task)


def by_value(service: TypedService[Any, Any], function: Function) -> Function:
    """A function whose one argument is the whole body, or which takes none."""
    parameters = Parameters(function)
    count = 0 if service.takes is None else 1
    if not parameters.can_take(count):
        what = "nothing" if not count else "one argument"
        raise SettingsError(f"service {service.name!r}: its function must take {what}, and may take a task")
    argument = service.argument

    def read(body: bytes, content_type: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        value = argument.read(body, content_type)
        return ((value,) if count else ()), {}

    return _body_function(function, read, service.content_type, parameters.task)


def content_type_of(header: bytes, usual: str) -> str:
    """In what a task came. Raises BadValue if that is nothing that we can read."""
    # A service of bytes takes them as they are, whatever somebody says about them.
    request = headers.read_task_request(header) if usual else None
    return known(request.content_type) if request is not None and request.content_type else usual


def _field(parameter: inspect.Parameter) -> Any:
    if parameter.default is parameter.empty:
        return parameter.name, parameter.annotation
    # The function has the default, which may be anything: what is not given is not passed.
    return parameter.name, parameter.annotation | msgspec.UnsetType, msgspec.UNSET


def _body_function(function: Function, read: _Read, content_type: str, task_name: str) -> Function:
    """It takes a call, as `calls.begin` calls what is typed."""

    def prepare(call: Call) -> tuple[tuple[Any, ...], dict[str, Any], str]:
        try:
            came_as = content_type_of(call.given.header, content_type)
            positional, named = read(call.given.body, came_as)
        except BadValue as error:
            raise BadArguments(str(error)) from None
        if task_name:
            named[task_name] = read_task(call.given, call.deadline_ns, call.service.tell_progress)
        return positional, named, came_as

    def run(call: Call) -> bytes:
        positional, named, came_as = prepare(call)
        return encode(function(*positional, **named), came_as)

    async def run_async(call: Call) -> bytes:
        positional, named, came_as = prepare(call)
        return encode(await function(*positional, **named), came_as)

    def run_stream(call: Call) -> Iterator[bytes]:
        positional, named, came_as = prepare(call)
        with closing(function(*positional, **named)) as parts:
            for part in parts:
                yield encode(part, came_as)

    async def run_async_stream(call: Call) -> AsyncIterator[bytes]:
        positional, named, came_as = prepare(call)
        async with aclosing(function(*positional, **named)) as parts:
            async for part in parts:
                yield encode(part, came_as)

    if is_stream(function):
        return run_async_stream if is_async(function) else run_stream
    return run_async if is_async(function) else run


def _part_of(gives: Any) -> Any:
    """What a function that yields says that each part is."""
    if gives in ANYTHING or gives in _STREAMS:
        return Any
    if get_origin(gives) not in _STREAMS:
        shown = getattr(gives, "__name__", str(gives))
        raise SettingsError(f"its function yields, so it gives an Iterator[...], not {shown}")
    parts = get_args(gives)
    return parts[0] if parts else Any
