"""What a typed call sends, and what it makes of the answer."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from famulus import Service, TaskError, Worker
from famulus.client.own_headers import more_fields
from famulus.client.typed_calls import TypedCall
from famulus.core.session.client import ClientSession
from famulus.core.session.task_kind import TaskKind
from famulus.errors import BadAnswer
from famulus.testing import StandIn
from famulus.wire import headers

TOTAL = Service("total", takes=list[int], gives=int)


def sent(more: bytes, message_id: str = "") -> dict[str, Any]:
    """The header of a task with these further fields."""
    session = ClientSession(token="token")
    session.submit(0, None, TaskKind("total", 1000, more=more), b"", message_id)
    ((_, header, _),) = session.next_to_send(0, 1)
    return headers.read_fields(header)


def test_arguments_go_by_their_names() -> None:
    assert json.loads(TypedCall("add", (), {"a": 1, "b": [2]}).body) == {"a": 1, "b": [2]}
    assert json.loads(TypedCall("add", ({"timeout": 5},), {"a": 1}).body) == {"timeout": 5, "a": 1}
    assert TypedCall("now", (), {}).body == b"{}"


def test_a_service_with_types_takes_its_value() -> None:
    call = TypedCall(TOTAL, ([1, 2],), {})
    assert (call.service, call.body, call.content_type) == ("total", b"[1,2]", "application/json")
    assert call.result(b"3") == 3
    packed = TypedCall(Service("total", takes=list[int], gives=int, codec="msgpack"), ([1],), {})
    assert (msgspec.msgpack.decode(packed.body), packed.content_type) == ([1], "application/msgpack")
    assert TypedCall(Service("now", gives=float), (), {}).body == b"null"


def test_wrong_use_is_told_at_the_call() -> None:
    with pytest.raises(TypeError, match="give the others by name"):
        TypedCall("add", (1, 2), {})
    with pytest.raises(TypeError, match="takes one value, and no arguments by name"):
        TypedCall(TOTAL, (), {"numbers": [1]})
    with pytest.raises(TypeError, match="unsupported"):
        TypedCall("add", (), {"a": object()})


def test_an_answer_of_another_type_is_no_result() -> None:
    with pytest.raises(BadAnswer, match="total ran, and its answer is not what was expected: expected int, got str"):
        TypedCall(TOTAL, ([1],), {}).result(b'"three"')


@pytest.mark.parametrize("message_id", ["", "mine"])
def test_the_header_says_the_content_type_and_has_the_clients_own_headers(message_id: str) -> None:
    plain = sent(b"", message_id)
    more = more_fields("application/json", {"customer": 'M"üller'})
    added = {"content_type": "application/json", "headers": {"customer": 'M"üller'}}
    assert sent(more, message_id) == plain | added
    assert sent(more_fields("application/json", None)) == sent(b"") | {"content_type": "application/json"}
    assert more_fields("", {}) == b""


def test_headers_are_checked_at_the_call() -> None:
    with pytest.raises(TypeError, match="headers are texts by name"):
        more_fields("", {"a": 1})  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="at most 256 headers"):
        more_fields("", {str(number): "" for number in range(257)})
    with pytest.raises(ValueError, match="at most 8192 bytes"):
        more_fields("", {"a": "x" * 8192})
    with pytest.raises(ValueError, match="valid Unicode"):
        more_fields("", {"a": "\ud800"})


# -- submit and map ---------------------------------------------------------------------------------------------------

DOUBLE = Service("double", takes=int, gives=int)
#: The same, as a client sees it who expects something else.
MISTAKEN = Service("double", takes=int, gives=str)
NOW = Service("now", gives=float)
worker = Worker()


@worker.serves(DOUBLE)
def double(number: int) -> int:
    if number < 0:
        raise ValueError("negative")
    return 2 * number


@worker.serves(NOW)
def now() -> float:
    return 1.5


@pytest.fixture
def broker() -> Iterator[StandIn]:
    with StandIn(worker) as standing_in:
        yield standing_in


def test_a_future_has_the_value(broker: StandIn) -> None:
    with broker.client() as client:
        assert client.submit(DOUBLE, 4).result() == 8
        assert client.submit(NOW).result() == 1.5
        assert isinstance(client.submit(DOUBLE, -1).exception(), TaskError)
        assert isinstance(client.submit(MISTAKEN, 4).exception(), BadAnswer)
        with pytest.raises(TypeError, match="unsupported"):
            client.submit(DOUBLE, object())  # type: ignore[misc]


def test_a_map_takes_values_and_gives_values(broker: StandIn) -> None:
    with broker.client() as client:
        assert list(client.map(DOUBLE, range(5), window=2)) == [0, 2, 4, 6, 8]
        assert [type(each) for each in client.map(DOUBLE, [1, -1], errors="return")] == [int, TaskError]
        assert [type(each) for each in client.map(MISTAKEN, [1, -1], errors="return")] == [BadAnswer, TaskError]
        with pytest.raises(BadAnswer):
            list(client.map(MISTAKEN, [1]))


def test_the_same_for_asyncio(broker: StandIn) -> None:
    async def ask() -> None:
        async with broker.async_client() as client:
            assert await client.submit(DOUBLE, 4) == 8
            assert await client.submit(NOW) == 1.5
            with pytest.raises(TaskError):
                await client.submit(DOUBLE, -1)
            with pytest.raises(BadAnswer):
                await client.submit(MISTAKEN, 4)
            assert [each async for each in client.map(DOUBLE, range(3))] == [0, 2, 4]
            told = [type(each) async for each in client.map(MISTAKEN, [1, -1], errors="return")]
            assert told == [BadAnswer, TaskError]
            given_up = client.submit(DOUBLE, 5)
            given_up.cancel()
            await asyncio.sleep(0)
            assert given_up.cancelled()

    asyncio.run(ask())
