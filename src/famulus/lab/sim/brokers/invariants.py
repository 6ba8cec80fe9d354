"""What must hold in a network of brokers, besides what holds in each of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from famulus.core.clock import NS_PER_MS
from famulus.core.session.client import GRACE_NS
from famulus.core.timers import TICK_NS
from famulus.lab.sim.invariants import Invariant, check_entry, check_step, demand

if TYPE_CHECKING:
    from famulus.lab.sim.brokers.broker import Broker
    from famulus.lab.sim.brokers.world import World
    from famulus.lab.sim.ledger import Entry

#: A client that was woken by its timer needs no more than this.
SLACK_NS = 50 * NS_PER_MS


def check_broker(broker: Broker, now_ns: int) -> None:
    """After a broker has run, and before anybody else does."""
    core = broker.core
    check_step(core, now_ns)
    for delegate in core.delegates.by_identity.values():
        demand(
            delegate.up or not delegate.running,
            Invariant.PEERS,
            f"{broker.name} waits for {delegate.identity!r}, which it has lost",
        )
        demand(
            all(task.attempt > 0 for task in delegate.running.values()),
            Invariant.DELIVERY,
            f"a task that {broker.name} handed over to {delegate.identity!r} counts as never started",
        )
    if core.counters.repeated != broker.repeated:
        broker.repeated = core.counters.repeated
        for key in list(core.repeats._open):
            _nobody_waits_for_himself(broker, key)


def _nobody_waits_for_himself(broker: Broker, key: bytes) -> None:
    """A broker that handed a task over waits for the other one, and so on; it must not come back to the first."""
    way = [broker.name]
    at: Broker | None = broker
    while at is not None:
        at = _whom_it_waits_for(at, key)
        if at is not None:
            demand(
                at.name not in way,
                Invariant.CIRCLES,
                f"each of {way} waits for the next one's answer to {key!r}, in a circle",
            )
            way.append(at.name)


def _whom_it_waits_for(broker: Broker, key: bytes) -> Broker | None:
    """The broker that this one handed the task over to, if it has arrived there and is open there."""
    for identity, delegate in broker.core.delegates.by_identity.items():
        for ticket, task in delegate.running.items():
            if task.known is None or task.known.key != key or not task.waits_for(ticket):
                continue
            line = broker.lines.get(identity)
            other = broker.world.brokers[identity.decode()]
            known = other.core.repeats._open.get(key) if other.alive else None
            if line is None or line.link is None or known is None:
                return None
            return other if (line.link.peer, ticket) in known.waiters else None
    return None


def check_end(world: World) -> None:
    """All faults are over, all tasks too: nothing may be left behind."""
    for body, entry in world.ledger.entries.items():
        survived = entry.client in world.clients
        check_entry(entry, body, client_survived=survived)
        if survived:
            _check_time(entry, body)
    demand(not (left := world.unsettled()), Invariant.END, f"long after the last fault: {left}")


def _check_time(entry: Entry, body: bytes) -> None:
    """Whatever died, a client that lives has its outcome by the deadline and the grace."""
    took_ns = entry.outcomes[0][0] - entry.submitted_ns
    demand(
        took_ns <= entry.timeout_ns + GRACE_NS + TICK_NS + SLACK_NS,
        Invariant.OUTCOMES,
        f"task {body!r} of {entry.service} ended {took_ns / NS_PER_MS:.0f} ms after its submission,"
        f" with a time-out of {entry.timeout_ns / NS_PER_MS:.0f} ms",
    )
