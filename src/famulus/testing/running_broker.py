"""A real broker for a test: on free ports of loopback, without a journal and an HTTP port, and gone at the end."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

from famulus.client.aio import AsyncClient
from famulus.client.threads import Client
from famulus.errors import BrokerDidNotStart

_READY: Final = re.compile(r"is ready: clients (\S+), workers (\S+) ")
#: How long it may take to stop: open tasks are given up.
STOP_S: Final = 5.0
_FLAGS: Final = ("--frontend-port", "0", "--backend-port", "0", "--no-http", "--no-journal", "--routers", "1")


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """What `running_broker` gives: where the broker is.

    with running_broker() as broker, worker.started(broker.backend), broker.client() as client:
        assert client.call("add", a=1, b=2) == 3
    """

    #: Address for clients.
    frontend: str
    #: Address for workers.
    backend: str
    #: Of the process that supervises the others.
    pid: int

    def client(self, **settings: Any) -> Client:
        """A client of it, to be closed by whoever asked."""
        return Client(self.frontend, **settings)

    def async_client(self, **settings: Any) -> AsyncClient:
        """The same for asyncio."""
        return AsyncClient(self.frontend, **settings)


@contextmanager
def running_broker(*flags: str) -> Iterator[RunningBroker]:
    """A broker with these flags of `famulus broker`, from when it is ready until the end of `with`."""
    # A session of its own: Ctrl-C is for the tests.
    process = subprocess.Popen(
        [sys.executable, "-m", "famulus", "broker", *_FLAGS, *flags],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    reader: threading.Thread | None = None
    try:
        broker = _ready(process)
        # Somebody has to read what it says, or it would wait for that.
        reader = threading.Thread(target=deque, args=(process.stdout, 0), name="famulus-broker-says", daemon=True)
        reader.start()
        yield broker
    finally:
        _stop(process)
        if reader is not None:
            reader.join()
        assert process.stdout is not None
        process.stdout.close()


def _ready(process: subprocess.Popen[str]) -> RunningBroker:
    said: list[str] = []
    assert process.stdout is not None
    for line in process.stdout:
        if match := _READY.search(line):
            return RunningBroker(match[1], match[2], process.pid)
        said.append(line)
    raise BrokerDidNotStart(f"the broker did not start: {''.join(said).strip()[-1000:] or 'it said nothing'}")


def _stop(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(STOP_S)
    except subprocess.TimeoutExpired:
        process.kill()  # its processes end when they notice
        process.wait()
