"""Others who connect to a broker: routers in processes of their own, and somebody who is up to no good."""

from __future__ import annotations

from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.questions import ROUTER_HEARTBEAT_NS
from famulus.core.session.worker import SessionState
from famulus.lab.sim.actor import Actor
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.tasks.broker import Broker
from famulus.lab.sim.tasks.ledger import Ledger
from famulus.lab.sim.tasks.worker import Worker
from famulus.lab.sim.world import World
from famulus.wire import headers, inner


class RouterActor(Actor):
    def __init__(self, world: World, name: str, broker: Broker) -> None:
        super().__init__(world, name)
        self.broker = broker
        self.plug = self.plug_to(broker.inside, "router")
        self._beat_ns = 0

    def kill(self) -> None:
        self.alive = False
        self.plug.close()

    def run(self, now_ns: int) -> None:
        if True in self.plug.changes():
            self.plug.send([[inner.NO_NUMBER, inner.HELLO]])
        self.plug.send(self.broker.router.decide(self.plug.recv()))
        if self._beat_ns <= now_ns:
            self._beat_ns = now_ns + ROUTER_HEARTBEAT_NS
            if self.plug.link is not None and self.random.random() < 0.9:  # PUB may drop
                self.broker.announce(inner.ROUTER_ALIVE, 0, self.plug.link.peer)
        self.wake_at(self._beat_ns)


class Thief(Actor):
    """Wants to be another worker, and leaves whatever answer it gets."""

    def __init__(self, world: World, ledger: Ledger, name: str, victim: Worker) -> None:
        super().__init__(world, name)
        self._ledger = ledger
        self._victim = victim
        # A name that nobody holds cannot be stolen.
        self._was_there = victim.session.state is SessionState.READY
        self._came_ns = self.clock.now_ns
        self._plug = self.plug_to(victim.plug.address, "worker")

    def run(self, now_ns: int) -> None:
        changes = self._plug.changes()
        if True in changes:
            wish = {"identity": self._victim.name, "services": self._victim.session.services}
            self._plug.send([[b"", headers.write("CONNECT", "REQUEST", **wish), b""]])
        answers = self._plug.recv()
        for _, header, _ in answers[:1]:
            is_taken = b'"CONFIG"' in header
            stolen = is_taken and self._was_there and self._is_undisturbed()
            demand(not stolen, Invariant.NAMES, f"{self._victim.name} was there, and its name was given to another")
            self.world.events["name of a worker stolen" if is_taken else "name of a worker not stolen"] += 1
        if answers or False in changes:
            self.alive = False
            self._plug.close()

    def _is_undisturbed(self) -> bool:
        """Nothing has happened to the victim or the broker since long before it was asked whether it is there."""
        victim = self._victim
        quiet_from_ns = max(victim.disturbed_ns, self._ledger.quiet_from_ns)
        is_there = victim.session.state is SessionState.READY and victim.plug.holds
        return is_there and quiet_from_ns + NS_PER_S < self._came_ns
