"""What the tests of the runners share: calls to run, and a patient look at the answers."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from time import monotonic_ns

import pytest

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.core.session.worker import Given
from famulus.net.waiting import Bell, Waiting
from famulus.wire import headers
from famulus.worker.calls import Answer, Call
from famulus.worker.runner import Runner
from famulus.worker.service import Function, Service

MakeCall = Callable[..., Call]
Collect = Callable[[Runner, int], list[Answer]]

_serial = itertools.count()


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell()
    yield bell
    bell.close()


@pytest.fixture
def make_call() -> MakeCall:
    """A call of a function, as the I/O thread would make it from a message."""

    def make(function: Function, body: bytes = b"", left_ms: int | None = None, name: str = "test") -> Call:
        number = next(_serial)
        request = headers.TaskRequest(service=name, message_id=f"id-{number}", timeout_ms=left_ms)
        header = headers.write(
            "TASK", "REQUEST", service=name, message_id=f"id-{number}", traceparent="00-ab", attempt=2
        )
        deadline_ns = NEVER_NS if left_ms is None else monotonic_ns() + left_ms * NS_PER_MS
        return Call(Given(b"%d" % number, request, header, body), Service(name, function), deadline_ns)

    return make


@pytest.fixture
def collect(bell: Bell) -> Collect:
    """Do as the I/O thread does until so many answers are there; in the order in which they came."""

    def collect(runner: Runner, count: int) -> list[Answer]:
        waiting = Waiting()
        waiting.watch(bell.fd)
        answers: list[Answer] = []
        deadline = time.monotonic() + 20
        while len(answers) < count:
            assert time.monotonic() < deadline, f"{len(answers)} of {count} answers came"
            waiting.wait(min(runner.next_due_ns, monotonic_ns() + 100 * NS_PER_MS))
            bell.ring()
            bell.answer()
            answers += runner.take(monotonic_ns())
        return answers

    return collect
