"""The loop of a dispatcher, without a broker around it."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import zmq

from famulus.broker.dispatching import Dispatching
from famulus.broker.lifeline import Lifeline
from famulus.broker.settings import Settings
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
    loop = Dispatching(settings, str(tmp_path / "ipc"), False, "b007", errands)
    terms = inner.Terms(1000, 4, False, 1, 100, 10_000, 1000)

    def end_a_task() -> None:
        flow, now_ns = Flow(Service(b"echo"), terms, b"", b""), time.monotonic_ns()
        task = Task(b"client", b"", b"", now_ns, flow, b'"mine"', now_ns)
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
    loop = Dispatching(settings, str(tmp_path / "ipc"), False, "b007", errands)
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
        found = len(questions)
    errands.end()
    loop.run()
    assert found == 5
