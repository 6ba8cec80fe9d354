"""The loop of a dispatcher, without a broker around it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import zmq

from famulus.broker.dispatching import Dispatching
from famulus.broker.lifeline import Lifeline
from famulus.broker.settings import Settings
from famulus.core.dispatch.accounts import Account
from famulus.core.dispatch.flows import Flow
from famulus.core.dispatch.service import Service
from famulus.core.dispatch.task import Task
from famulus.journal.records import read
from famulus.wire import inner, zmtp

#: A second is how long rows waited at most before, and ended by waiting each time in this test.
SOON_S = 0.5


class Errands(Lifeline):
    """What comes down the line is done by the dispatcher's own thread."""

    def __init__(self) -> None:
        self.fd, self._writer = os.pipe()
        self._errand: Callable[[], object] | None = None
        self._over = False

    def run(self, errand: Callable[[], object]) -> None:
        self._errand = errand
        os.write(self._writer, b"!")

    def end(self) -> None:
        self._over = True
        os.write(self._writer, b"!")

    def commands(self) -> list[dict[str, Any]] | None:
        os.read(self.fd, 1)
        if self._over:
            return None
        assert self._errand is not None
        self._errand()
        return []

    def report(self, **facts: object) -> None:
        pass


def test_a_row_is_told_to_the_scribe_a_moment_after_its_task_has_ended(tmp_path: Path) -> None:
    """At once after other rows have gone: until the next second it would be lost with the dispatcher."""
    (tmp_path / "ipc").mkdir()
    context = zmq.Context()
    scribe = context.socket(zmq.PULL)
    scribe.bind(f"ipc://{tmp_path}/ipc/journal")
    errands = Errands()
    settings = Settings(frontend_port=0, backend_port=0, http=False, journal=True)
    loop = Dispatching(settings, str(tmp_path / "ipc"), "b007", errands)
    terms = inner.Terms(1000, 4, False, 1, 100, 10_000, 1000)

    def end_a_task() -> None:
        flow, now_ns = Flow(Service(b"echo"), terms, b"", b""), time.monotonic_ns()
        task = Task(Account(b""), b"client", b"", b"", now_ns, flow, b'"mine"', now_ns)
        loop._core.outcomes.open_tasks += 1
        loop._core.outcomes.reject(task, inner.REJECTED_NO_SERVICE)

    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        for _ in range(2):
            asked_s = time.monotonic()
            errands.run(end_a_task)
            assert scribe.poll(5000)
            assert read(scribe.recv()).tables["tasks"][0] == 1
            waited_s = time.monotonic() - asked_s
        assert waited_s < SOON_S
    finally:
        errands.end()
        thread.join(10)
        context.destroy(linger=0)


def test_a_batch_that_comes_while_no_task_is_open_stays_together(tmp_path: Path) -> None:
    """One message that went ahead of the others would be a write and a read more for everybody, batch for batch."""
    (tmp_path / "ipc").mkdir()
    settings = Settings(frontend_port=0, backend_port=0, http=False, journal=False)
    errands = Errands()
    loop = Dispatching(settings, str(tmp_path / "ipc"), "b007", errands)
    message = b"".join(bytes([flags, 1]) + frame for flags, frame in ((1, b"e"), (1, b"h"), (0, b"b")))
    questions = loop._core.questions
    # At first it looks everywhere, also at what it is told to do.
    errands.run(lambda: None)
    with socket.create_connection(("127.0.0.1", loop.frontend_port)) as client:
        client.sendall(zmtp.opening(b"DEALER") + 5 * message)
        deadline_s = time.monotonic() + 10
        while not len(questions) and time.monotonic() < deadline_s:
            loop._clients.look = True
            loop._read(time.monotonic_ns())
            loop._attend()
        found = len(questions)
    errands.end()
    loop.run()
    assert found == 5


def test_whoever_keeps_one_port_busy_does_not_keep_it_from_the_others(tmp_path: Path) -> None:
    (tmp_path / "ipc").mkdir()
    settings = Settings(frontend_port=0, backend_port=0, http=False, journal=False)
    errands = Errands()
    loop = Dispatching(settings, str(tmp_path / "ipc"), "b007", errands)
    many, nonsense = 20_000, b"\0\1?"
    answered: list[int] = []

    def look() -> None:
        answered.append(loop._core.counters.faults)
        errands.end()

    def send_much() -> None:
        client.sendall(many * nonsense)
        errands.run(look)

    with socket.create_connection(("127.0.0.1", loop.frontend_port)) as client:
        client.sendall(zmtp.opening(b"DEALER"))
        errands.run(send_much)
        loop.run()
    assert answered
    assert 0 < answered[0] < many


@pytest.mark.parametrize("port", ["_frontend", "_backend"])
def test_who_has_just_been_let_in_is_known_before_its_first_message_is_read(tmp_path: Path, port: str) -> None:
    """Or it would count as one of those without a key, who may do anything where they may come at all."""
    (tmp_path / "ipc").mkdir()
    settings = Settings(frontend_port=0, backend_port=0, http=False, journal=False)
    loop = Dispatching(settings, str(tmp_path / "ipc"), "b007", Errands())
    core, listener = loop._core, getattr(loop, port)
    connections = listener._connections
    try:
        core.on_principals(inner.Principals({b"her key": "ann"}, {"ann": inner.NO_TERMS}, True, {}))
        core.on_router(b"router", [[inner.NO_NUMBER, inner.HELLO]])
        # Both are there when it is read: the handshake ended while other messages were looked at.
        listener.come.append((b"peer", "ann", b"her key"))
        message = [b"peer", b"", b'{"request":"TASK","type":"REQUEST","service":"echo"}', b""]
        listener._connections = SimpleNamespace(recv=lambda limit: [message], more=False, news=[])
        loop._commands.look = False
        loop._read(time.monotonic_ns())
        ((_, questions),) = core.questions.take_batches()
    finally:
        listener._connections = connections
        for each in (loop._frontend, loop._backend):
            each.close()
        loop._context.destroy(linger=0)
    assert [principal for _, _, principal, _ in questions] == [b"ann"]
