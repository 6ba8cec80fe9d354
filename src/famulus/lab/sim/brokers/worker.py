"""A worker that knows several brokers: the real session and the real `Homes`, with a shell as a worker's shift."""

from __future__ import annotations

from typing import TYPE_CHECKING

from famulus.core.clock import NEVER_NS, NS_PER_S
from famulus.core.session.homes import PROBE, Homes, proves_life
from famulus.core.session.worker import State, WorkerSession
from famulus.lab.sim.actors import Actor
from famulus.lab.sim.brokers.plug import Plug
from famulus.lab.sim.hands import Hands

if TYPE_CHECKING:
    from famulus.lab.sim.brokers.world import World

#: Soon enough for the preferred broker to be looked for within a run.
RETURN_AFTER_NS = (1 * NS_PER_S, 4 * NS_PER_S)


class Worker(Actor):
    world: World

    def __init__(self, world: World, name: str, home: str, services: list[str], slots: int, quick_ns: int) -> None:
        super().__init__(world, name)
        #: Where it began: the address of a backend.
        self.home = home
        self.quick_ns = quick_ns
        self.homes = Homes([home], self.random.random, return_after_ns=RETURN_AFTER_NS)
        heartbeat_ms = self.random.choice([100, 500])
        token = f"{self.random.getrandbits(64):016x}"
        self.session = WorkerSession(name, services, slots, heartbeat_ms, self.random.random, self.homes, token=token)
        self._hands = Hands(self, world.ledger, self.session, self._flush, quick_ns)
        self._probe: Plug | None = None
        self._was_at = ""
        self.plug = self._plug_to(self.homes.next())
        self.session.on_linking(world.clock.now_ns)

    def _plug_to(self, address: str) -> Plug:
        return Plug(self.world, self, self.name, address, "worker")

    @property
    def ready(self) -> bool:
        return self.session.state is State.READY

    def kill(self) -> None:
        self.alive = False
        self.plug.close()
        if self._probe is not None:
            self._probe.close()

    def run(self, now_ns: int) -> None:
        session = self.session
        for up in self.plug.changes():
            if up:
                session.on_link(now_ns)
            else:
                session.on_link_lost(now_ns)
        came = self.plug.recv()
        for given in session.on_messages(now_ns, came) if came else []:
            self._hands.start(given)
        session.on_tick(now_ns)
        self._look_home(now_ns)
        self._relink(now_ns)
        self._flush()
        if self.ready:
            self._settle()
        if session.state is State.GONE and self.alive:
            self.kill()
            self.world.respawn_worker(self)
        else:
            self.wake_at(max(min(session.next_due_ns, self.homes.next_due_ns), now_ns + 1))

    def _settle(self) -> None:
        if self._was_at and self._was_at != self.plug.address:
            self.world.events["worker at another broker"] += 1
        self._was_at = self.plug.address

    def _relink(self, now_ns: int) -> None:
        """The session gave the broker up. Where the network has noticed too, it connects again by itself."""
        session = self.session
        if session.relink_at_ns > now_ns or session.state is not State.OFFLINE:
            return
        address = self.homes.next()
        if self.plug.up or address != self.plug.address:
            self.plug.close()
            self.plug = self._plug_to(address)
        session.on_linking(now_ns)

    def _look_home(self, now_ns: int) -> None:
        """Away from the preferred broker: look whether it is there, and go back to it."""
        homes, probe = self.homes, self._probe
        if probe is None:
            if homes.probe_at_ns > now_ns:
                return
            homes.on_probe(now_ns)
            probe = self._probe = self._plug_to(homes.preferred)
        if True in probe.changes():
            probe.send([PROBE])
        answers = probe.recv()
        if not answers and now_ns < homes.probe_by_ns < NEVER_NS:
            return
        probe.close()
        self._probe = None
        if any(map(proves_life, answers)) and self.session.move():
            self.world.events["worker on its way back"] += 1
            homes.on_probe_answered()
        else:
            homes.on_probe_failed(now_ns)

    def _flush(self) -> None:
        outbox = self.session.outbox
        if self.plug.up:
            del outbox[: self.plug.send(outbox)]
