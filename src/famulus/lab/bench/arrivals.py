"""`famulus bench arrivals`: thousands of workers come to one broker, with keys and without.

They come as fast as the broker lets them in. Before that and meanwhile another client asks at a fixed rate, in an open
loop: what it notices of them is what they cost others. It has its connection before they come: the broker lets in only
so many with keys a second who have one address, and here all have the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from famulus.lab.bench import descriptors, secured
from famulus.lab.bench.buckets import PERCENTILES
from famulus.lab.bench.crowd import CONNECT_WITHIN_S
from famulus.lab.bench.figures import Figures, Progress, in_turn
from famulus.lab.bench.fleet import START_S, Broker, Crew
from famulus.lab.bench.load import OfferedLoad, Seen, start
from famulus.lab.bench.scale import shares
from famulus.lab.processes import cpu_s, rss_kib
from famulus.net.handshake_rate import AT_ONCE, PER_SECOND

PLAIN, KEYS = "plain", "keys"
SIDES: dict[str, Callable[[Crew], Broker]] = {PLAIN: Crew.broker, KEYS: secured.broker}
WORKERS_OF_A_SERVICE = 10
BODY_BYTES = 100
TIMEOUT_MS = 10_000


@dataclass(frozen=True, slots=True)
class Plan:
    connections: int = 10_000
    #: Tasks per second of the other client.
    per_s: float = 500.0
    rounds: int = 3

    @property
    def seconds(self) -> float:
        """How long the other client asks: no longer than they take who have keys."""
        return max(1.0, (self.connections - AT_ONCE) / PER_SECOND)


def measure(plan: Plan, progress: Progress) -> dict[str, Any]:
    return summary(in_turn(list(SIDES), plan.rounds, partial(one_round, plan), progress))


def summary(seen: dict[str, Any]) -> dict[str, Any]:
    medians = seen["medians"]
    keys, plain = medians[KEYS], medians[PLAIN]
    return {
        "handshakes_per_s": keys["per_s"],
        "p99_ratio": keys["p99_ms_meanwhile"] / keys["p99_ms_before"],
        "kib_with_keys": keys["kib"],
        "kib_plain": plain["kib"],
        **seen,
    }


def one_round(plan: Plan, side: str) -> Figures:
    offer = OfferedLoad(plan.per_s, plan.seconds, 1.0, BODY_BYTES, TIMEOUT_MS)
    with Crew() as crew:
        broker = SIDES[side](crew)
        go_first(crew.echo_worker(broker, 1).pid)
        pids = list(broker.member.parts().values())
        before = ask(crew, broker, offer)()
        empty_kib, spent_s = sum(map(rss_kib, pids)), sum(map(cpu_s, pids))
        asking = ask(crew, broker, offer)
        services = max(1, plan.connections // WORKERS_OF_A_SERVICE)
        each = descriptors.sockets_that_fit(descriptors.hard_limit())
        crowds = [
            crew.part("crowd", "crowd", broker.backend, *share, services, 1) for share in shares(plan.connections, each)
        ]
        for crowd in crowds:
            stand_aside(crowd.pid)
        came = [
            crowd.wait_until(r"^(\d+) workers are ready after (\S+) s", START_S + CONNECT_WITHIN_S) for crowd in crowds
        ]
        full_kib, spent_s = sum(map(rss_kib, pids)), sum(map(cpu_s, pids)) - spent_s
        meanwhile = asking()
    connected, seconds = sum(int(one[1]) for one in came), max(float(one[2]) for one in came)
    return {
        "connected": connected,
        "seconds": seconds,
        "per_s": connected / seconds,
        "kib": (full_kib - empty_kib) / max(1, connected),
        "cpu_us": spent_s * 1e6 / max(1, connected),
        **latencies(before, "before"),
        **latencies(meanwhile, "meanwhile"),
    }


def stand_aside(pid: int) -> None:
    """Those who come would be on other machines: they must not take the processors from those whom we measure."""
    os.sched_setscheduler(pid, os.SCHED_IDLE, os.sched_param(0))
    # Where the system shares out its time by session, that alone says nothing about other sessions.
    with suppress(OSError):
        Path(f"/proc/{pid}/autogroup").write_text("19")


def ask(crew: Crew, broker: Broker, offer: OfferedLoad) -> Callable[[], Seen]:
    """What is returned waits for the end of it."""
    asking = start(crew, broker.frontend, offer)
    go_first(crew[-1].pid)
    return asking


def go_first(pid: int) -> None:
    """The other client and its worker would be on other machines, too.

    What is measured is how long the broker lets them wait, and not how long they wait for processors that they share
    with it. Only root may do that.
    """
    with suppress(PermissionError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setscheduler(int(thread), os.SCHED_RR, os.sched_param(1))


def latencies(seen: Seen, when: str) -> Figures:
    """Of the other client, in milliseconds; and how many of its tasks did not end well."""
    ok = seen.latency("OK")
    found = {f"{name}_ms_{when}": ok.percentile(PERCENTILES[name]) / 1e6 for name in ("p50", "p99", "p99.9")}
    return {**found, f"not_ok_{when}": seen.offered - len(ok)}
