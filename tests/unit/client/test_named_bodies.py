"""A map whose caller names its tasks: ids go in step with the bodies, and a mistake in them costs no answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from itertools import count, islice
from typing import Any

import pytest

from famulus import OutcomeError, Service, Worker
from famulus.testing import StandIn

DOUBLE = Service("double", takes=int, gives=int)

Map = Callable[..., Iterator[Any]]


def map_threads(broker: StandIn, *arguments: Any, **options: Any) -> Iterator[Any]:
    with broker.client() as client:
        yield from client.map(*arguments, **options)


def map_asyncio(broker: StandIn, *arguments: Any, **options: Any) -> Iterator[Any]:
    with asyncio.Runner() as runner:
        answers = broker.async_client().map(*arguments, **options)
        while True:
            try:
                yield runner.run(anext(answers))  # type: ignore[arg-type]
            except StopAsyncIteration:
                return


both = pytest.mark.parametrize("run", [map_threads, map_asyncio])


@pytest.fixture
def ran() -> list[str]:
    return []


@pytest.fixture
def broker(ran: list[str]) -> StandIn:
    worker = Worker(slots=2)

    @worker.service("name")
    def name(body: bytes, task: Any) -> str:
        ran.append(task.message_id)
        if body == b"fail":
            raise ValueError(task.message_id)
        return f"{task.message_id} {body.decode()}"

    @worker.serves(DOUBLE)
    def double(number: int) -> int:
        return 2 * number

    return StandIn(worker)


def numbered() -> Iterator[str]:
    return (f"row {number}" for number in count())


@both
def test_each_body_gets_the_id_at_its_place(broker: StandIn, run: Map) -> None:
    bodies = (str(number) for number in count())
    answers = run(broker, "name", bodies, message_ids=numbered(), window=3)
    assert list(islice(answers, 8)) == [f"row {number} {number}".encode() for number in range(8)]
    answers.close()  # type: ignore[attr-defined]


@both
def test_typed_calls_have_ids_too(broker: StandIn, run: Map) -> None:
    assert list(run(broker, DOUBLE, [1, 2, 3], message_ids=["a", "b", "c"])) == [2, 4, 6]


def test_what_has_run_under_an_id_does_not_run_again(broker: StandIn, ran: list[str]) -> None:
    with broker.client() as client:
        for _ in range(2):
            assert list(client.map("name", ["x", "y"], message_ids=["a", "b"])) == [b"a x", b"b y"]
    assert ran == ["a", "b"]


@both
@pytest.mark.parametrize(
    ("message_ids", "said"),
    [
        (["a", "b"], r"message_ids ends after 2, and there are more bodies"),
        (["a", "b", "c", "d"], r"message_ids goes on after the last body; there are 3 bodies"),
        (["a", "b", ""], r"1 to 128 characters, not 0; it is that of body 2, counted from 0"),
        (["a", "b", "x" * 129], r"1 to 128 characters, not 129"),
        (["a", "b", "\ud800"], r"valid Unicode"),
        (["a", "b", "a"], r"body 2, counted from 0, has the message_id 'a' of a task that is still open"),
    ],
)
@pytest.mark.parametrize("window", [2, 1000])
def test_a_mistake_is_told_after_the_answers_before_it(
    broker: StandIn, run: Map, message_ids: Iterable[str], said: str, window: int
) -> None:
    if window == 2 and "still open" in said:
        return  # its task has been answered by then
    answers = run(broker, "name", ["x", "y", "z"], message_ids=message_ids, window=window)
    assert list(islice(answers, 2)) == [b"a x", b"b y"]
    with pytest.raises(ValueError, match=said):
        list(answers)


@both
def test_an_id_is_a_text(broker: StandIn, run: Map) -> None:
    with pytest.raises(TypeError, match="a message_id is a text, not int; it is that of body 1"):
        list(run(broker, "name", ["x", "y"], message_ids=["a", 1]))
    with pytest.raises(TypeError, match="message_ids has one id for each body"):
        list(run(broker, "name", ["x", "y"], message_ids="ab"))


@both
def test_an_id_may_come_again_once_its_answer_was_given_out(broker: StandIn, run: Map, ran: list[str]) -> None:
    ids = ["a", "b", "a", "b"]
    answers = list(run(broker, "name", ["x", "fail", "x", "fail"], message_ids=ids, window=2, errors="return"))
    assert [getattr(each, "reason", each) for each in answers] == [b"a x", "ValueError: b"] * 2
    assert isinstance(answers[1], OutcomeError)
    assert ran == ["a", "b"]
