"""How long a client is without answers when a part is there but does nothing, and how often that is a false alarm.

frozen      every process of the client's broker is stopped; another broker is there
hung        only the dispatcher is stopped, and there is no other broker
cut off     what the client and its broker say to each other does not arrive; another broker is there

In the last case, a relay between them passes everything on until it is stopped.

python -m famulus.lab.bench recovery keeps a processor busy, until it is killed or its parent has ended.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from statistics import median

from famulus.client.threads import Client
from famulus.errors import OutcomeError
from famulus.lab.bench.fleet import Crew
from famulus.lab.processes import python, send_signal

FAULTS = ("frozen", "hung", "cut off")
#: The client asks for at least this long before the fault, so that everything is in its normal state.
QUIET_S = 1.0
RELAY_HOST = "127.0.30.1"
#: Half the slots of a worker.
WINDOW = 50
#: Long enough to wait for a task that hangs; all of them end with the loss of their broker.
TIMEOUT_S = 30.0


def measure(rounds: int, seconds: float, busy: int, tell: Callable[[str], None]) -> dict[str, object]:
    """Seconds to the next success by fault, and the false alarms of a run of `seconds` beside `busy` processes."""
    found: dict[str, list[float]] = {fault: [] for fault in FAULTS}
    for number in range(rounds):
        for fault in FAULTS:
            # At a different moment between two PINGs each time.
            found[fault].append(without_answers_s(fault, QUIET_S + number % 7 * 0.1))
            tell(f"{fault:8} {found[fault][-1]:5.2f} s")
    return {
        "recovery_s": {
            fault: {"median": median(took_s), "worst": max(took_s), "rounds": took_s} for fault, took_s in found.items()
        },
        "under_load": _false_alarms(seconds, busy) if seconds else {},
    }


# -- the faults -----------------------------------------------------------------------------------------------------


def without_answers_s(fault: str, quiet_s: float) -> float:
    with Crew() as crew:
        brokers = [crew.echo_broker(WINDOW) for _ in range(1 if fault == "hung" else 2)]
        parts = brokers[0].member.parts()
        victims = [parts["dispatcher"]] if fault == "hung" else list(parts.values())
        addresses = [broker.frontend for broker in brokers]
        if fault == "cut off":
            port = addresses[0].rpartition(":")[2]
            relay = crew.start("relay", python("famulus.lab.relay", RELAY_HOST, "127.0.0.1", port))
            relay.wait_until("relay is open")
            victims, addresses[0] = [relay.pid], f"tcp://{RELAY_HOST}:{port}"
        with Client(addresses, timeout=TIMEOUT_S) as client:
            quiet_until = time.monotonic() + quiet_s
            while not _asks(client) or time.monotonic() < quiet_until:
                pass
            began = time.monotonic()
            send_signal(victims, signal.SIGSTOP)
            try:
                while not _asks(client):
                    pass
                return time.monotonic() - began
            finally:
                send_signal(victims, signal.SIGCONT)


def _asks(client: Client) -> bool:
    try:
        return client.request("echo", b"x") == b"x"
    except OutcomeError:
        return False


# -- without a fault ------------------------------------------------------------------------------------------------


def _false_alarms(seconds: float, busy: int) -> dict[str, object]:
    """Everything at full rate, on an overloaded machine, with nothing wrong."""
    with Crew() as crew:
        broker = crew.echo_broker(WINDOW)
        worker = crew[-1]
        for _ in range(busy):
            crew.part("busy", "recovery")
        before = broker.member.parts()
        asked, failed = _ask_much(broker.frontend, time.monotonic() + seconds)
        killed = set(before.values()) - set(broker.member.parts().values())
        worker.signal(signal.SIGTERM)
        again = worker.output(30).count("is ready")
        return {
            "seconds": seconds,
            "busy": busy,
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


def main() -> None:
    parent = os.getppid()
    while os.getppid() == parent:
        for _ in range(1_000_000):
            pass
