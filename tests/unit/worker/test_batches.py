"""Batches: the function gets a list, and each task has an answer of its own, whatever the function does."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
import pytest
from tests.unit.worker.conftest import Broker, Run

from famulus import Service, Task, Worker
from famulus.core.clock import NEVER_NS
from famulus.core.session.header_cache import Given, ParsedHeader
from famulus.errors import SettingsError
from famulus.net.waiting import Bell
from famulus.wire import headers
from famulus.worker.batch_call import perform_batch
from famulus.worker.batching import BatchTerms
from famulus.worker.calls import Answer, BatchAnswer, BatchCall, Call
from famulus.worker.child import serve
from famulus.worker.coroutines import Coroutines, answer_of_any
from famulus.worker.current import current_task
from famulus.worker.nursery import Nursery
from famulus.worker.processes import Processes
from famulus.worker.runner import Runner
from famulus.worker.services import Services
from famulus.worker.threads import Threads

MakeCall = Callable[..., Call]
Collect = Callable[[Runner, int], list[Answer]]
FOUR = BatchTerms(4, 5.0)


class Size(msgspec.Struct):
    width: int


def upper(bodies: list[bytes]) -> list[bytes]:
    return [body.upper() for body in bodies]


def upper_or_not(bodies: list[bytes]) -> list[bytes | str | Exception]:
    return [body.upper() if body.isalpha() else ValueError(f"{body!r} is odd") for body in bodies]


def batch_of(
    function: Any, *bodies: bytes, service: Service[Any, Any] | None = None, expired: Sequence[int] = (), **fields: Any
) -> BatchCall:
    services = Services()
    if service is None:
        services.add("test", function, FOUR)
    else:
        services.add_typed(service, function, FOUR)
    (made,) = services.values()
    calls = []
    for number, body in enumerate(bodies):
        header = headers.write("TASK", "REQUEST", service=made.name, message_id=f"m{number}", **fields)
        given = Given(b"t%d" % number, ParsedHeader(made.name, None), b'"m%d"' % number, header, body)
        calls.append(Call(given, made, 0 if number in expired else NEVER_NS))
    return BatchCall(calls)


def told(answer: Answer) -> list[tuple[str, bytes]]:
    """What each of its tasks is told."""
    assert isinstance(answer, BatchAnswer)
    assert [each.given.ticket for each in answer.answers] == [b"t%d" % n for n in range(len(answer.answers))]
    return [(each.reason, each.body) for each in answer.answers]


@pytest.fixture(params=["called", "awaited"])
def run_batch(request: pytest.FixtureRequest) -> Callable[[BatchCall], Answer]:
    """The function is called, or one that awaits something is."""

    def awaited(batch: BatchCall) -> Answer:
        function = batch.service.function

        async def later(*lists: Any) -> Any:
            await asyncio.sleep(0)
            return function(*lists)

        batch.service.function = later
        return asyncio.run(answer_of_any(batch))

    return perform_batch if request.param == "called" else awaited


RunBatch = Callable[[BatchCall], Answer]


def test_each_task_has_its_result(run_batch: RunBatch) -> None:
    assert told(run_batch(batch_of(upper, b"a", b"b", b"c"))) == [("", b"A"), ("", b"B"), ("", b"C")]


def test_an_exception_in_the_place_of_a_result_fails_that_task_alone(
    run_batch: RunBatch, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.CRITICAL + 1):
        answers = told(run_batch(batch_of(upper_or_not, b"a", b"1", b"c")))
    assert answers == [("", b"A"), ("ValueError: b'1' is odd", b""), ("", b"C")]


def test_so_does_a_result_that_cannot_be_sent(run_batch: RunBatch, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL + 1):
        answers = told(run_batch(batch_of(lambda bodies: [b"good", 5, None, "text"], b"a", b"b", b"c", b"d")))
    assert [body for _, body in answers] == [b"good", b"", b"", b"text"]
    assert [reason[:9] for reason, _ in answers] == ["", "TypeError", "", ""]


def test_what_is_raised_fails_all_and_is_logged_once(run_batch: RunBatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(bodies: list[bytes]) -> list[bytes]:
        raise SystemExit(3)

    with caplog.at_level(logging.ERROR, "famulus.worker"):
        answers = told(run_batch(batch_of(fail, b"a", b"b")))
    assert answers == [("SystemExit: 3", b"")] * 2
    assert len(caplog.records) == 1
    assert "test failed for a batch of 2 tasks, the first of them m0" in caplog.text


@pytest.mark.parametrize(
    ("result", "reason"),
    [
        ([b"a"], "ValueError: it returned 1 results for a batch of 2"),
        ([b"a", b"b", b"c"], "ValueError: it returned 3 results for a batch of 2"),
        (b"ab", "TypeError: a function with batch returns a list, not bytes"),
        (None, "TypeError: a function with batch returns a list, not NoneType"),
    ],
)
def test_what_is_no_list_of_the_right_length_is_an_error_for_all(
    run_batch: RunBatch, caplog: pytest.LogCaptureFixture, result: Any, reason: str
) -> None:
    with caplog.at_level(logging.CRITICAL + 1):
        assert told(run_batch(batch_of(lambda bodies: result, b"a", b"b"))) == [(reason, b"")] * 2


def test_a_task_whose_time_is_up_is_not_run(run_batch: RunBatch) -> None:
    seen: list[bytes] = []

    def see(bodies: list[bytes]) -> list[bytes]:
        seen.extend(bodies)
        return bodies

    answers = told(run_batch(batch_of(see, b"a", b"late", b"c", expired=[1])))
    assert seen == [b"a", b"c"]
    assert [reason.partition(":")[0] for reason, _ in answers] == ["", "expired", ""]
    run_batch(batch_of(see, b"late", expired=[0]))
    assert seen == [b"a", b"c"], "it is not called for nobody"


def test_it_gets_the_tasks_if_it_wants_them(run_batch: RunBatch) -> None:
    def who(bodies: list[bytes], tasks: list[Task]) -> list[str]:
        return [f"{body.decode()} {task.message_id} {task.headers}" for body, task in zip(bodies, tasks, strict=True)]

    answers = told(run_batch(batch_of(who, b"a", b"late", b"c", expired=[1], headers={"n": "1"})))
    assert [body for _, body in answers] == [b"a m0 {'n': '1'}", b"", b"c m2 {'n': '1'}"]


def test_of_a_batch_the_current_task_is_the_first() -> None:
    found: list[object] = []

    async def look(bodies: list[bytes]) -> list[bytes]:
        found.append(current_task())
        return bodies

    bell = Bell()
    coroutines = Coroutines(bell)
    coroutines.start([batch_of(look, b"a", b"b")])
    assert coroutines.close()
    bell.close()
    assert found == [("test", "m0")]


# -- values with types ------------------------------------------------------------------------------------------


def widths(sizes: list[Size]) -> list[int | ValueError]:
    return [size.width if size.width >= 0 else ValueError("negative") for size in sizes]


def test_wrong_arguments_never_reach_it_and_are_told_to_that_task_alone(
    run_batch: RunBatch, caplog: pytest.LogCaptureFixture
) -> None:
    bodies = b'{"width":5}', b'{"width":"x"}', b'{"width":-1}', b"{}"
    with caplog.at_level(logging.CRITICAL + 1):
        answers = told(run_batch(batch_of(widths, *bodies)))
    assert answers == [
        ("", b"5"),
        ("bad_arguments: width: expected int, got str", b""),
        ("ValueError: negative", b""),
        ("bad_arguments: width: missing", b""),
    ]


def test_each_answer_is_in_the_content_type_of_its_task(run_batch: RunBatch) -> None:
    make = Service("make", takes=Size, gives=list[int], codec="msgpack")

    def run(sizes: list[Size]) -> list[list[int]]:
        return [[size.width] for size in sizes]

    packed = batch_of(run, msgspec.msgpack.encode(Size(1)), service=make)
    assert told(run_batch(packed)) == [("", msgspec.msgpack.encode([1]))]
    as_json = batch_of(run, b'{"width":1}', service=make, content_type="application/json")
    assert told(run_batch(as_json)) == [("", b"[1]")]


def test_what_cannot_be_written_fails_its_task_alone(run_batch: RunBatch, caplog: pytest.LogCaptureFixture) -> None:
    def run(numbers: list[int]) -> list[Any]:
        return [number if number else object() for number in numbers]

    with caplog.at_level(logging.CRITICAL + 1):
        good, bad = told(run_batch(batch_of(run, b"1", b"0")))
    assert good == ("", b"1")
    assert bad[0].startswith("TypeError: Encoding objects of type object is unsupported")


# -- what may be registered -------------------------------------------------------------------------------------


def no_list(body: bytes) -> bytes:
    return body


def gives_one(texts: list[str]) -> str:
    return ""


def three(bodies: list[bytes], tasks: list[Task], more: int) -> list[bytes]:
    return bodies


def no_parameters() -> list[bytes]:
    return []


def no_codec(locks: list[threading.Event]) -> list[int]:
    return []


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (no_list, "takes a list, not bytes"),
        (gives_one, "returns a list, not str"),
        (three, r"must take \(items\) or \(items, tasks\)"),
        (no_parameters, r"must take \(items\) or \(items, tasks\)"),
        (no_codec, "no codec has a Event"),
    ],
)
def test_a_function_that_cannot_do_it_is_refused_when_it_is_registered(function: Any, why: str) -> None:
    with pytest.raises(SettingsError, match=f"^service 'test': .*{why}"):
        Services().add("test", function, FOUR)


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"batch": 0}, "batch: a number of tasks from 1 to 10000, not 0"),
        ({"batch": True}, "batch: "),
        ({"batch": 2.0}, "batch: "),
        ({"batch": 2, "wait_ms": -1}, "wait_ms: from 0 to 60000, not -1"),
        ({"wait_ms": 5}, "wait_ms is how long a batch waits"),
    ],
)
def test_terms_that_are_wrong_are_named(options: dict[str, Any], why: str) -> None:
    with pytest.raises(SettingsError, match=f"^service 'test': {why}"):
        Worker().service("test", **options)(upper)


def test_a_service_that_takes_nothing_has_no_batches() -> None:
    with pytest.raises(SettingsError, match="takes nothing"):
        Worker().serves(Service("now", gives=float), batch=4)(lambda items: [1.0])


def test_slots_are_enough_for_a_batch_that_runs_and_one_that_fills() -> None:
    def slots(**settings: Any) -> int:
        worker = Worker(**settings)
        worker.service("test", batch=8)(upper)
        return worker.settings_to_run.capacity

    assert slots() == 16
    assert slots(processes=3) == 32
    assert slots(slots=9) == 9
    with pytest.raises(SettingsError, match=r"slots: 7 are too few for service 'test', whose batches have 8 tasks"):
        slots(slots=7)
    worker = Worker()
    worker.service("test", batch=8)(upper)
    worker.change(slots=7)
    with pytest.raises(SettingsError, match="slots: 7 are too few"):
        worker.run()


# -- in threads, on the loop, in processes ----------------------------------------------------------------------


def pids(bodies: list[bytes], tasks: list[Task]) -> list[str]:
    return [f"{os.getpid()} {task.message_id} {current_task()}" for task in tasks]


def die(bodies: list[bytes]) -> list[bytes]:
    os._exit(7)


@pytest.fixture
def processes(bell: Bell) -> Iterator[tuple[Processes, Services]]:
    services = Services()
    for function in (upper_or_not, widths, pids, die):
        services.add(function.__name__, function, FOUR)
    nursery = Nursery(partial(serve, services=services))
    made = Processes(bell, nursery, 1)
    yield made, services
    assert made.close()
    nursery.close()


def in_child(services: Services, name: str, *bodies: bytes) -> BatchCall:
    batch = batch_of(upper, *bodies)
    for call in batch.calls:
        call.service = services[name]
    batch.service = services[name]
    return batch


def test_a_child_process_does_the_same(
    processes: tuple[Processes, Services], collect: Collect, caplog: pytest.LogCaptureFixture
) -> None:
    runner, services = processes
    with caplog.at_level(logging.ERROR, "famulus.worker"):
        runner.start(
            [in_child(services, "upper_or_not", b"a", b"1"), in_child(services, "widths", b'{"width":1}', b"5")]
        )
        first, second = collect(runner, 2)
    assert told(first) == [("", b"A"), ("ValueError: b'1' is odd", b"")]
    assert told(second) == [("", b"1"), ("bad_arguments: expected object, got int", b"")]
    assert "upper_or_not failed for task m1" in caplog.text
    runner.start([in_child(services, "pids", b"", b"")])
    (answer,) = collect(runner, 1)
    (pid,) = runner.pids
    assert [body.decode() for _, body in told(answer)] == [
        f"{pid} m{n} CurrentTask(service='pids', message_id='m0')" for n in range(2)
    ]


def test_a_child_that_dies_is_an_error_for_all_of_its_batch(
    processes: tuple[Processes, Services], collect: Collect, caplog: pytest.LogCaptureFixture
) -> None:
    runner, services = processes
    with caplog.at_level(logging.ERROR, "famulus.worker"):
        runner.start([in_child(services, "die", b"a", b"b")])
        (answer,) = collect(runner, 1)
    assert told(answer) == [("ProcessDied: the process that ran it died (exit code 7)", b"")] * 2
    assert "the process of a batch of 2 tasks" in caplog.text


def test_threads_run_single_tasks_and_batches(bell: Bell, collect: Collect, make_call: MakeCall) -> None:
    threads = Threads(bell, 1)
    threads.start([batch_of(upper, b"a", b"b"), make_call(bytes.upper, b"c")])
    batch, single = collect(threads, 2)
    assert told(batch) == [("", b"A"), ("", b"B")]
    assert single.body == b"C"
    assert threads.close()


# -- a whole worker ---------------------------------------------------------------------------------------------


def lengths_worker(broker: Broker, *, wait_ms: float, batch: int = 4, **settings: Any) -> Worker:
    worker = Worker(broker.address, **settings)

    @worker.service("lengths", batch=batch, wait_ms=wait_ms)
    def lengths(bodies: list[bytes]) -> list[str]:
        return [f"{body.decode()} of {len(bodies)}" for body in bodies]

    return worker


def answers(broker: Broker, count: int) -> dict[str, str]:
    heard = (broker.hear("TASK") for _ in range(count))
    return {ticket.decode(): body.decode() for ticket, _, body in heard}


def test_a_full_batch_runs_at_once_and_asks_for_slots(broker: Broker, run: Run) -> None:
    running = run(lengths_worker(broker, wait_ms=60_000))
    _, fields, _ = broker.hear("CONNECT")
    assert fields["slots"] == 8
    broker.tell("CONFIG", identity="w", heartbeat_ms=60_000, version=1, digest="d")
    broker.hear("PING")
    broker.tell("PONG", version=1, digest="d")
    for number in range(4):
        broker.give(b"t%d" % number, "lengths", b"%d" % number)
    assert answers(broker, 4) == {f"t{n}": f"{n} of 4" for n in range(4)}
    running.worker.stop()
    broker.let_go()
    running.wait()
    assert running.result is True


def test_one_that_is_not_full_runs_when_it_has_waited(broker: Broker, run: Run) -> None:
    run(lengths_worker(broker, wait_ms=1))
    broker.welcome(heartbeat_ms=60_000)
    began = time.monotonic()
    for number in range(30):
        broker.give(b"t%d" % number, "lengths", b"0")
        assert answers(broker, 1) == {f"t{number}": "0 of 1"}
    assert time.monotonic() - began < 9.0  # sooner than a worker that has to be woken by something else


def test_what_waits_when_the_worker_drains_runs_at_once(broker: Broker, run: Run) -> None:
    running = run(lengths_worker(broker, wait_ms=60_000, drain_s=1000))
    broker.welcome(heartbeat_ms=60_000)
    broker.give(b"t0", "lengths", b"0")
    broker.give(b"t1", "lengths", b"1")
    while (shift := running.worker._shift) is None or shift.running < 2:
        assert running.error is None
    running.worker.stop()
    assert answers(broker, 2) == {"t0": "0 of 2", "t1": "1 of 2"}
    broker.tell("DISCONNECT")
    running.wait()
    assert running.result is True


def test_however_quick_it_is_its_tasks_come_in_batches(broker: Broker, run: Run) -> None:
    run(lengths_worker(broker, wait_ms=60_000))
    broker.welcome(heartbeat_ms=60_000)
    for _ in range(50):
        for number in range(4):
            broker.give(b"t%d" % number, "lengths", b"%d" % number)
        assert answers(broker, 4) == {f"t{n}": f"{n} of 4" for n in range(4)}


def test_while_a_batch_runs_the_next_one_fills(broker: Broker, run: Run) -> None:
    inside, go_on = threading.Event(), threading.Event()
    worker = Worker(broker.address)
    sizes: list[int] = []

    @worker.service("hold", batch=4, wait_ms=0)
    def hold(bodies: list[bytes]) -> list[bytes]:
        sizes.append(len(bodies))
        inside.set()
        go_on.wait(20)
        return bodies

    running = run(worker)
    broker.welcome(heartbeat_ms=60_000)
    broker.give(b"first", "hold")
    assert inside.wait(20)
    for number in range(4):
        broker.give(b"t%d" % number, "hold")
    while (shift := running.worker._shift) is None or shift.running < 5:
        assert running.error is None
    go_on.set()
    assert set(answers(broker, 5)) == {"first", "t0", "t1", "t2", "t3"}
    assert sizes == [1, 4]


def test_a_task_that_has_no_time_left_when_its_turn_comes_is_told_so(broker: Broker, run: Run) -> None:
    run(lengths_worker(broker, wait_ms=20))
    broker.welcome(heartbeat_ms=60_000)
    broker.give(b"short", "lengths", b"s", timeout_ms=1)
    broker.give(b"long", "lengths", b"l")
    told_by = {}
    for _ in range(2):
        ticket, fields, body = broker.hear("TASK")
        told_by[ticket] = fields.get("reason", "").partition(":")[0], body
    assert told_by == {b"short": ("expired", b""), b"long": ("", b"l of 1")}


def test_batches_on_the_loop(broker: Broker, run: Run) -> None:
    worker = Worker(broker.address)

    @worker.service("lengths", batch=2, wait_ms=60_000)
    async def lengths(words: list[str]) -> list[dict[str, int]]:
        await asyncio.sleep(0)
        return [{word: len(words)} for word in words]

    run(worker)
    broker.welcome(heartbeat_ms=60_000)
    for word in ("a", "b", "c", "d"):
        broker.give(word.encode(), "lengths", json.dumps(word).encode())
    assert {ticket: json.loads(body) for ticket, body in answers(broker, 4).items()} == {
        word: {word: 2} for word in ("a", "b", "c", "d")
    }
