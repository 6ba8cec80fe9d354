"""How long a client is without answers when a part is there but does nothing, and how often that is said in vain.

frozen      every process of the client's broker is stopped; another broker is there
hung        only the dispatcher is stopped, and there is no other broker
cut off     what the client and its broker say to each other does not arrive; another broker is there

For the last, a relay between them passes everything on until it falls silent.

python -m famulus.lab.bench.recovery keeps a processor busy, until it is killed or alone.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from statistics import median
from threading import Thread

from famulus.client.threads import Client
from famulus.errors import OutcomeError
from famulus.lab.bench.fleet import Crew
from famulus.lab.processes import python, send_signal
from famulus.lab.relay import Relay

FAULTS = ("frozen", "hung", "cut off")
#: Asked for so long before the fault, at least, so that everything is as it always is.
QUIET_S = 1.0
RELAY_HOST = "127.0.30.1"
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
        relay = closing.enter_context(relay_before(addresses[0])) if fault == "cut off" else None
        if relay is not None:
            addresses[0] = f"tcp://{RELAY_HOST}:{relay.port}"
        client = closing.enter_context(Client(addresses, timeout=TIMEOUT_S))
        _ask_until(client, time.monotonic() + quiet_s)
        victims = {"frozen": list(parts.values()), "hung": [parts["dispatcher"]]}.get(fault, [])
        closing.callback(send_signal, victims, signal.SIGCONT)
        began = time.monotonic()
        send_signal(victims, signal.SIGSTOP)
        if relay is not None:
            relay.mute()
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


@contextmanager
def relay_before(address: str) -> Iterator[Relay]:
    """In a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    relay = Relay(RELAY_HOST, "127.0.0.1", int(address.rpartition(":")[2]))
    try:
        asyncio.run_coroutine_threadsafe(relay.open(), loop).result()
        yield relay
    finally:
        asyncio.run_coroutine_threadsafe(relay.close(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


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
