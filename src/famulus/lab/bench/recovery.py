"""How long a client is without answers when a part is there but does nothing, and how often that is said in vain.

frozen      every process of the client's broker is stopped; another broker is there
hung        only the dispatcher is stopped, and there is no other broker
cut off     what the client and its broker say to each other does not arrive; another broker is there

A stretch of network is a `Mute`: it passes everything on until it is told not to, and then keeps all to itself without
letting anybody know.

python -m famulus.lab.bench.recovery keeps a processor busy, until it is killed or alone.
"""

from __future__ import annotations

import os
import selectors
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from statistics import median

from famulus.client.threads import Client
from famulus.errors import OutcomeError
from famulus.lab.bench.fleet import Crew
from famulus.lab.processes import python, send_signal

FAULTS = ("frozen", "hung", "cut off")
#: Asked for so long before the fault, at least, so that everything is as it always is.
QUIET_S = 1.0
#: Half the slots of a worker.
WINDOW = 50
#: A task that hangs is to be waited for; all of them end by the loss of their broker.
TIMEOUT_S = 30.0


@dataclass(frozen=True)
class Plan:
    rounds: int
    #: How long the run without faults is, and how many processes keep the processors busy meanwhile.
    seconds: float
    busy: int


def measure(plan: Plan, tell: Callable[[str], None]) -> dict[str, object]:
    """Seconds to the next success by fault, and the false alarms of a run under load."""
    found: dict[str, list[float]] = {fault: [] for fault in FAULTS}
    for number in range(plan.rounds):
        for fault in FAULTS:
            # At another moment between two PINGs each time.
            found[fault].append(without_answers_s(fault, QUIET_S + number % 7 * 0.1))
            tell(f"{fault:8} {found[fault][-1]:5.2f} s")
    return {
        "recovery_s": {
            fault: {"median": median(seconds), "worst": max(seconds), "rounds": seconds}
            for fault, seconds in found.items()
        },
        "under_load": _false_alarms(plan) if plan.seconds else {},
    }


# -- the faults -----------------------------------------------------------------------------------------------------


def without_answers_s(fault: str, quiet_s: float) -> float:
    with Crew() as crew, ExitStack() as closing:
        brokers = [crew.broker() for _ in range(1 if fault == "hung" else 2)]
        for broker in brokers:
            crew.echo_worker(broker.backend, WINDOW)
        parts = brokers[0].member.parts()
        addresses = [broker.frontend for broker in brokers]
        mute = Mute(addresses[0]) if fault == "cut off" else None
        if mute is not None:
            closing.callback(mute.close)
            addresses[0] = mute.address
        client = closing.enter_context(Client(addresses, timeout=TIMEOUT_S))
        _ask_until(client, time.monotonic() + quiet_s)
        victims = {"frozen": list(parts.values()), "hung": [parts["dispatcher"]]}.get(fault, [])
        closing.callback(send_signal, victims, signal.SIGCONT)
        began = time.monotonic()
        send_signal(victims, signal.SIGSTOP)
        if mute is not None:
            mute.is_mute = True
        while not _asks(client):
            pass
        return time.monotonic() - began


def _ask_until(client: Client, until: float) -> None:
    asked = False
    while not asked or time.monotonic() < until:
        asked = _asks(client)


def _asks(client: Client) -> bool:
    try:
        return client.request("echo", b"x") == b"x"
    except OutcomeError:
        return False


class Mute:
    """A stretch of network in a thread."""

    def __init__(self, there: str) -> None:
        host, _, port = there.removeprefix("tcp://").rpartition(":")
        self._there = (host, int(port))
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"tcp://127.0.0.1:{self._server.getsockname()[1]}"
        self.is_mute = self._closed = False
        self._others: dict[socket.socket, socket.socket] = {}
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._thread = threading.Thread(target=self._pass_on, daemon=True)
        self._thread.start()

    def _pass_on(self) -> None:
        while not self._closed:
            for key, _ in self._selector.select(0.05):
                if self.is_mute:
                    time.sleep(0.05)
                elif key.fileobj is self._server:
                    self._accept()
                else:
                    assert isinstance(key.fileobj, socket.socket)
                    self._carry(key.fileobj)

    def _accept(self) -> None:
        ends = self._server.accept()[0], socket.create_connection(self._there)
        for end, other in (ends, ends[::-1]):
            self._others[end] = other
            self._selector.register(end, selectors.EVENT_READ)

    def _carry(self, end: socket.socket) -> None:
        with suppress(OSError):
            if chunk := end.recv(1 << 16):
                self._others[end].sendall(chunk)
                return
        for each in (end, self._others[end]):
            if self._others.pop(each, None) is not None:
                self._selector.unregister(each)
                each.close()

    def close(self) -> None:
        self._closed = True
        self._thread.join()
        for end in (self._server, *self._others):
            end.close()
        self._selector.close()


# -- without a fault ------------------------------------------------------------------------------------------------


def _false_alarms(plan: Plan) -> dict[str, object]:
    """Everything at its full rate, on a machine with far too much to do, and nothing is wrong."""
    with Crew() as crew:
        broker = crew.broker()
        worker = crew.echo_worker(broker.backend, WINDOW)
        for _ in range(plan.busy):
            crew.start("busy", python("famulus.lab.bench.recovery"))
        before = broker.member.parts()
        asked, failed = _ask_much(broker.frontend, time.monotonic() + plan.seconds)
        killed = set(before.values()) - set(broker.member.parts().values())
        worker.signal(signal.SIGTERM)
        again = worker.output(30).count("is ready")
        return {
            "seconds": plan.seconds,
            "busy": plan.busy,
            "tasks": asked,
            "tasks_failed": failed,
            "children_killed": len(killed),
            "workers_lost": again,
        }


def _ask_much(frontend: str, until: float) -> tuple[int, int]:
    asked = failed = 0
    with Client(frontend, timeout=TIMEOUT_S) as client:
        while time.monotonic() < until:
            for answer in client.map("echo", [b"x" * 100] * 20_000, errors="return"):
                asked += 1
                failed += isinstance(answer, OutcomeError)
    return asked, failed


def keep_busy() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass


if __name__ == "__main__":
    keep_busy()
