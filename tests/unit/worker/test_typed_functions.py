"""Functions with arguments of their own: which ones are, how they are called, and what never reaches them."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from famulus import Service, Task
from famulus.core.clock import NEVER_NS
from famulus.core.session.header_cache import Given, ParsedHeader
from famulus.errors import SettingsError
from famulus.wire import headers
from famulus.worker.calls import Answer, Call, attempt
from famulus.worker.coroutines import answer_of
from famulus.worker.services import Services

if TYPE_CHECKING:
    from famulus.worker.task import Task as UnresolvedTask


class Size(msgspec.Struct):
    width: int
    height: int = 0


@dataclass
class Point:
    x: float


class Connection:
    """Something that only lives in one process."""


def add(a: int, b: int = 0) -> int:
    return a + b


def nothing() -> str:
    return "nothing"


def only_names(*, size: Size, points: list[Point] | None = None) -> list[int]:
    return [size.width, size.height, len(points or ())]


def with_task(a: int, task: Task) -> str:
    return f"{a} {task.message_id} {task.headers}"


def only_task(task: Task) -> str:
    return task.message_id


def bytes_and_more(data: bytes, level: int) -> int:
    return len(data) * level


def odd_default(a: int, names: list[str] = ["x", "y"]) -> int:  # noqa: B006 - it is the function's own
    return a + len(names)


def give(services: Services, name: str, body: bytes, content_type: str | None = None, **more: Any) -> Call:
    header = headers.write("TASK", "REQUEST", service=name, message_id="m", content_type=content_type, **more)
    return Call(Given(b"t", ParsedHeader(name, None), b'"m"', header, body), services[name], NEVER_NS)


def called(function: Any, body: bytes, content_type: str | None = "application/json", **more: Any) -> Answer:
    services = Services()
    services.add("test", function)
    assert services["test"].is_typed
    answer, trace = attempt(give(services, "test", body, content_type, **more))
    assert not trace
    return answer


@pytest.mark.parametrize(
    ("function", "arguments", "result"),
    [
        (add, {"a": 1, "b": 2}, 3),
        (add, {"a": 1}, 1),
        (nothing, {}, "nothing"),
        (only_names, {"size": {"width": 5}}, [5, 0, 0]),
        (only_names, {"size": {"width": 5}, "points": [{"x": 1}]}, [5, 0, 1]),
        (only_task, {}, "m"),
        (bytes_and_more, {"data": "AAAA", "level": 2}, 6),
        (odd_default, {"a": 1}, 3),
    ],
)
def test_arguments_come_by_their_names(function: Any, arguments: dict[str, Any], result: Any) -> None:
    answer = called(function, json.dumps(arguments).encode())
    assert (answer.reason, json.loads(answer.body)) == ("", result)
    packed = called(function, msgspec.msgpack.encode(arguments), "application/msgpack")
    if function is not bytes_and_more:
        assert (packed.reason, msgspec.msgpack.decode(packed.body)) == ("", result)


def test_a_task_is_not_an_argument() -> None:
    answer = called(with_task, b'{"a":1}', headers={"customer": "5"})
    assert json.loads(answer.body) == "1 m {'customer': '5'}"
    assert called(with_task, b'{"a":1,"task":2}').reason == "bad_arguments: task: unknown"


def test_who_says_nothing_sends_json_and_no_arguments_need_no_body() -> None:
    assert called(add, b'{"a":1}', None).body == b"1"
    assert called(nothing, b"", None).body == b'"nothing"'
    assert called(nothing, b"", "application/msgpack").body == msgspec.msgpack.encode("nothing")


@pytest.mark.parametrize(
    ("body", "content_type", "sentence"),
    [
        (b'{"a":"x"}', "application/json", "a: expected int, got str"),
        (b'{"b":1}', "application/json", "a: missing"),
        (b'{"a":1,"c":1}', "application/json", "c: unknown"),
        (b"", "application/json", "a: missing"),
        (b"\xff", "application/json", "JSON is malformed: invalid character (byte 0)"),
        (b'{"a":1}', "text/plain", "content_type is text/plain, and must be application/json or application/msgpack"),
    ],
)
def test_wrong_arguments_never_reach_the_function(body: bytes, content_type: str, sentence: str) -> None:
    calls: list[int] = []

    def careful(a: int, b: int = 0) -> None:
        calls.append(a)

    assert called(careful, body, content_type).reason == f"bad_arguments: {sentence}"
    assert not calls


async def written(size: Size) -> str:
    return f"{size.width}"


def drive(call: Call) -> Answer:
    return asyncio.run(answer_of(call))


def test_async_functions_likewise(caplog: pytest.LogCaptureFixture) -> None:
    services = Services()
    services.add("test", written)
    assert services["test"].asynchronous
    assert drive(give(services, "test", b'{"size":{"width":5}}')).body == b'"5"'
    assert drive(give(services, "test", b"{}")).reason == "bad_arguments: size: missing"
    assert not caplog.records


def test_what_it_raises_is_told_as_ever(caplog: pytest.LogCaptureFixture) -> None:
    def fails(a: int) -> int:
        raise ValueError(f"{a} is odd")

    def gives_anything(a: int) -> Any:
        return object()

    services = Services()
    services.add("test", fails)
    services.add("anything", gives_anything)
    answer, trace = attempt(give(services, "test", b'{"a":1}'))
    assert answer.reason == "ValueError: 1 is odd"
    assert "in fails" in trace
    answer, trace = attempt(give(services, "anything", b'{"a":1}'))
    assert answer.reason.startswith("TypeError: Encoding objects of type object is unsupported")


# -- services with types ----------------------------------------------------------------------------------------


def served(service: Service[Any, Any], function: Any, body: bytes, content_type: str | None = None) -> Answer:
    services = Services()
    services.add_typed(service, function)
    return attempt(give(services, service.name, body, content_type))[0]


def test_a_service_with_types_gets_the_value() -> None:
    make = Service("make", takes=Size, gives=list[int])
    packed = Service("make", takes=Size, gives=list[int], codec="msgpack")

    def run(size: Size) -> list[int]:
        return [size.width, size.height]

    assert served(make, run, b'{"width":1}').body == b"[1,0]"
    assert served(make, lambda size: [size.width], b'{"width":1}').body == b"[1]"
    assert served(packed, run, msgspec.msgpack.encode(Size(1))).body == msgspec.msgpack.encode([1, 0])
    # In whatever it came, whatever the worker would choose itself.
    assert served(packed, run, b'{"width":1}', "application/json").body == b"[1,0]"
    assert served(make, run, b'{"width":"x"}').reason == "bad_arguments: width: expected int, got str"


def test_a_service_of_bytes_gets_them_as_they_are() -> None:
    raw = Service("raw", takes=bytes, gives=bytes, codec="bytes")
    assert served(raw, lambda body: body[::-1], b"abc", "application/json").body == b"cba"


def test_a_service_that_takes_nothing() -> None:
    now = Service("now", gives=float)
    assert served(now, lambda: 1.5, b"null").body == b"1.5"
    assert served(now, lambda task: len(task.body), b"null").body == b"4"


@pytest.mark.parametrize(
    ("service", "function"),
    [
        (Service("make", takes=Size, gives=str), lambda: ""),
        (Service("make", takes=Size, gives=str), lambda size, more: ""),
        (Service("make", gives=str), lambda size: ""),
    ],
)
def test_a_function_that_cannot_serve_it_is_refused(service: Service[Any, Any], function: Any) -> None:
    with pytest.raises(SettingsError, match="'make': its function must take"):
        Services().add_typed(service, function)


def test_a_name_is_not_a_service_with_types() -> None:
    with pytest.raises(SettingsError, match=r"write @worker\.service\('name'\)"):
        Services().add_typed("make", add)  # type: ignore[arg-type]


# -- what is refused, and what is not typed ---------------------------------------------------------------------


def no_codec(connection: Connection) -> int:
    return 1


def no_codec_for_the_result(a: int) -> Connection:
    return Connection()


def takes_a_function(a: int, then: Callable[[], None]) -> int:
    return a


def half_typed(a: int, b) -> int:  # type: ignore[no-untyped-def]
    return a


def nameless(a: int, /) -> int:
    return a


def unresolvable(a: NotThere) -> int:  # type: ignore[name-defined]  # noqa: F821
    return 1


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (no_codec, "no codec has a Connection"),
        (no_codec_for_the_result, "no codec has a Connection"),
        (takes_a_function, "no codec has a Callable"),
        (half_typed, "its parameter 'b' has no type"),
        (nameless, "its parameter 'a' has no name for callers"),
        (unresolvable, "its types cannot be found: name 'NotThere' is not defined"),
    ],
)
def test_what_no_codec_can_serve_is_refused_when_it_is_registered(function: Any, why: str) -> None:
    with pytest.raises(SettingsError, match=f"'odd': {why}"):
        Services().add("odd", function)


def of_bodies(body: bytes, task: UnresolvedTask) -> bytes:
    return body


def of_views(body: bytes | memoryview) -> bytes:
    return bytes(body)


def with_setting(body: bytes, level: int = 5) -> bytes:
    return body


@pytest.mark.parametrize(
    "function",
    [of_bodies, of_views, with_setting, lambda body: body, lambda body, task: body, bytes, len, print],
)
def test_functions_of_bodies_are_left_as_they_are(function: Any) -> None:
    services = Services()
    services.add("plain", function)
    assert not services["plain"].is_typed
    assert services["plain"].function is function
