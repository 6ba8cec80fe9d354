"""The registry: which function stands for which service, and what may not be registered."""

from __future__ import annotations

import functools
from typing import Any

import pytest

from famulus.errors import SettingsError
from famulus.worker.service import Service
from famulus.worker.services import Services


def plain(body: bytes) -> bytes:
    return body


def with_task(body: bytes, task: object) -> bytes:
    return body


def with_default(body: bytes, separator: bytes = b",") -> bytes:
    return body


def with_optional_task(body: bytes, task: object = None) -> bytes:
    return body


def variadic(*bodies: bytes) -> bytes:
    return bodies[0]


async def asynchronous(body: bytes) -> bytes:
    return body


class Model:
    async def __call__(self, body: bytes) -> bytes:
        return body

    def method(self, body: bytes, task: object) -> bytes:
        return body


@pytest.mark.parametrize(
    ("function", "wants_task", "is_async"),
    [
        (plain, False, False),
        (with_task, True, False),
        (with_default, False, False),
        (with_optional_task, True, False),
        (variadic, False, False),
        (asynchronous, False, True),
        (Model(), False, True),
        (Model().method, True, False),
        (functools.partial(with_task, task=None), False, False),
        (functools.partial(asynchronous), False, True),
        (bytes, False, False),
        (lambda body: body, False, False),
    ],
)
def test_a_function_tells_how_it_wants_to_be_called(function: Any, wants_task: bool, is_async: bool) -> None:
    service = Service("s", function)
    assert (service.wants_task, service.asynchronous) == (wants_task, is_async)


@pytest.mark.parametrize(
    "function",
    [lambda: b"", lambda body, task, more: b"", lambda body, *, key: b""],
    ids=["nothing", "three", "keyword"],
)
def test_a_function_that_cannot_be_called_is_refused_at_once(function: Any) -> None:
    with pytest.raises(SettingsError, match=r"'odd'.*\(body\) or \(body, task\)"):
        Services().add("odd", function)


@pytest.mark.parametrize("name", ["", "x" * 256, "line\nbreak", "\x7f"])
def test_a_name_that_no_header_could_carry_is_refused(name: str) -> None:
    with pytest.raises(SettingsError, match="characters"):
        Services().add(name, plain)


def test_a_name_has_one_function() -> None:
    services = Services()
    services.add("echo", plain)
    with pytest.raises(SettingsError, match="'echo': it has a function already"):
        services.add("echo", with_task)
    assert list(services) == ["echo"]
    assert services.get("other") is None


def test_a_decorator_without_a_name_is_explained() -> None:
    with pytest.raises(SettingsError, match=r"write @worker\.service"):
        Services().add(plain, plain)  # type: ignore[arg-type]


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(SettingsError, match="not a function"):
        Services().add("echo", 5)  # type: ignore[arg-type]
