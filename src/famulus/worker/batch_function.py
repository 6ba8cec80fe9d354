"""What a function that gets its tasks in batches takes and gives: bodies, or values with a type.

A wrong argument is found for each task by itself, before the function is called with the others.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Union, get_args, get_origin

from famulus.errors import SettingsError
from famulus.typed.codecs import JSON, BadValue, Reader, encode
from famulus.typed.service import Service as TypedService
from famulus.worker.batching import Batching, BatchTerms, wait_ns
from famulus.worker.calls import BadArguments
from famulus.worker.parameters import ANYTHING, BODY, Parameters
from famulus.worker.service import Function
from famulus.worker.typed_function import content_type_of

#: What may be written for the list that a function takes or gives.
_LISTS: Final = (list, Sequence, Collection, Iterable)


def by_annotation(name: str, function: Function, terms: BatchTerms) -> Batching:
    """`(list[bytes])` and a list without a type take bodies; `list[T]` takes values, each of them a body in JSON."""
    parameters = Parameters(function)
    wants_tasks = _wants_tasks(name, parameters)
    item = _item_of(name, parameters.first, "takes")
    if item in ANYTHING or item in BODY:
        return _of_bodies(terms, wants_tasks)
    gives = _item_of(name, parameters.gives, "returns")
    try:
        reader = Reader(item)
        Reader(_without_exceptions(gives))
    except SettingsError as error:
        raise SettingsError(f"service {name!r}: {error}") from None
    return _of_values(terms, wants_tasks, reader.read, JSON)


def by_service(service: TypedService[Any, Any], function: Function, terms: BatchTerms) -> Batching:
    if service.takes is None:
        raise SettingsError(f"service {service.name!r}: it takes nothing, so there is nothing to make batches of")
    wants_tasks = _wants_tasks(service.name, Parameters(function))
    return _of_values(terms, wants_tasks, service.argument.read, service.content_type)


def _of_bodies(terms: BatchTerms, wants_tasks: bool) -> Batching:
    return Batching(
        terms.size, wait_ns(terms), wants_tasks, lambda body, header: (body, ""), lambda result, content_type: result
    )


def _of_values(
    terms: BatchTerms, wants_tasks: bool, read_value: Callable[[bytes, str], Any], content_type: str
) -> Batching:
    def read(body: bytes, header: bytes) -> tuple[Any, str]:
        try:
            came_as = content_type_of(header, content_type)
            return read_value(body, came_as), came_as
        except BadValue as error:
            raise BadArguments(str(error)) from None

    return Batching(terms.size, wait_ns(terms), wants_tasks, read, encode)


def _wants_tasks(name: str, parameters: Parameters) -> bool:
    """True for `(items, tasks)`. A second parameter with a default is the function's own, unless it is named tasks."""
    if not (parameters.can_be_given(1) or parameters.can_be_given(2)):
        raise SettingsError(
            f"service {name!r}: with batch, its function must take (items) or (items, tasks), both lists"
        )
    return not parameters.can_be_given(1) or parameters.second == "tasks"


def _item_of(name: str, annotation: Any, verb: str) -> Any:
    """What is in a list of this type."""
    if isinstance(annotation, str):
        # It could not be evaluated.
        if "bytes" in annotation or verb == "returns":
            return Any
        raise SettingsError(f"service {name!r}: the type {annotation} cannot be found")
    if annotation in ANYTHING or annotation in _LISTS:
        return Any
    if get_origin(annotation) not in _LISTS:
        shown = getattr(annotation, "__name__", str(annotation))
        raise SettingsError(f"service {name!r}: with batch, its function {verb} a list, not {shown}")
    return get_args(annotation)[0]


def _without_exceptions(gives: Any) -> Any:
    """In the place of a result there may be an exception, and it may say so."""
    if get_origin(gives) not in (Union, types.UnionType):
        return gives
    values = [each for each in get_args(gives) if not (isinstance(each, type) and issubclass(each, BaseException))]
    return Union[tuple(values)] if values else Any  # noqa: UP007 - it is made here
