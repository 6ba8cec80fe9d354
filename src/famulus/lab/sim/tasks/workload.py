"""A family of brokers and those that it falls back on, their routers, workers and clients, and what these want done."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Any

from famulus.core.batch_queue import slots_for
from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.delivery import ServicePolicy
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.tasks.access import Access
from famulus.lab.sim.tasks.broker import Broker, Common
from famulus.lab.sim.tasks.client import Client
from famulus.lab.sim.tasks.dispatcher_checks import left_behind
from famulus.lab.sim.tasks.holders import ANYBODY, Holder, new_holders
from famulus.lab.sim.tasks.ledger import Ledger, LedgerEntry
from famulus.lab.sim.tasks.rights_admin import RightsAdmin
from famulus.lab.sim.tasks.setting import POLICIES, SERVICES, Setting, first_edits
from famulus.lab.sim.tasks.strangers import RouterActor
from famulus.lab.sim.tasks.streams import CREDITS, PARTS_MAX, SHARE
from famulus.lab.sim.tasks.worker import QUICK_NS, Trade, Worker
from famulus.lab.sim.workload import Result, Workload
from famulus.lab.sim.world import World
from famulus.wire import headers, stream

FAULTS_END_NS = 5 * NS_PER_S
#: By then the last fault has been over for longer than any task has time, and what is still at work may end.
QUIET_NS = FAULTS_END_NS + 7 * NS_PER_S
#: By then every silence, rest and back-off of this world is over, too.
END_NS = QUIET_NS + 25 * NS_PER_S
LOOK_NS = 200 * NS_PER_MS
#: By then a lost router is known, a dead process is back and everybody has reconnected.
RECOVERY_NS = 2 * NS_PER_S
#: How many of the tasks are cancelled, and how many may run twice.
CANCELLED_SHARE = 0.2
IDEMPOTENT_SHARE = 0.3
#: How many have a delay: in one world none, in another most.
DELAYED_SHARES = (0.0, 0.0, 0.1, 0.9)
DELAYS_MS = (1, 100, 1500, 3000)
#: How many tasks a worker's functions get together; most get one.
BATCHES = (0, 0, 0, 2, 4)
#: Few, so that each comes again; and some tasks have none.
TASK_KEYS = ("", "red", "green", "blue")


class Tasks(Workload):
    faults_end_ns = FAULTS_END_NS

    def __init__(self, world: World, brokers: int, setting: Setting) -> None:
        """With 0 `brokers` the seed says how many the family has."""
        super().__init__(world)
        #: Those with principals; none if nobody needs a key.
        self.holders = new_holders() if setting.keys else []
        access = Access(self.holders, world.events) if setting.keys else None
        self.ledger = Ledger(access)
        self._setting = setting
        self._tasks = 0
        world.network.doubles, world.network.waits = 0.02, 0.5
        families = {f"b{number}": "own" for number in range(brokers or self.random.choice(setting.brokers))}
        families |= {f"spare{number}": "spare" for number in range(self.random.choice(setting.spares))}
        heartbeat_ms = self.random.choice(setting.family_heartbeats_ms)
        keys = self.random.choice(setting.keys) if setting.keys else "none"
        self._keys = keys
        self._delayed_share = self.random.choice(DELAYED_SHARES)
        principals = {holder.config_key: holder.value() for holder in self.holders}
        first = first_edits(families, heartbeat_ms, keys, principals, setting.policy)
        common = Common(setting, first, self.ledger, access)
        self.brokers = {name: Broker(world, name, common) for name in families}
        self.admin = RightsAdmin(world, self.brokers)
        self.routers: list[RouterActor] = []
        self.workers: list[Worker] = []
        self.clients: list[Client] = []
        # Once their connections are there, brokers are held to their word about time.
        self.ledger.disturb(quiet_from_ns=self.clock.now_ns + NS_PER_S)
        self._settle()

    def _settle(self) -> None:
        random, setting = self.random, self._setting
        for broker in self.brokers.values():
            for _ in range(0 if setting.instant else random.choice(setting.routers)):
                self.spawn_router(broker)
            for _ in range(random.choice(setting.workers)):
                self.spawn_worker(broker.address.backend)
        for _ in range(random.randint(setting.clients_min, max(3, setting.clients_min, len(self.brokers)))):
            self.spawn_client()
        for _ in range(random.randint(*setting.tasks)):
            self.clock.after(random.randrange(FAULTS_END_NS), self._submit_somewhere)
        for _ in range(random.randint(*setting.bursts)):
            self.clock.after(random.randrange(FAULTS_END_NS), self._submit_several)
        # So that at the end every broker can serve.
        self.clock.after(FAULTS_END_NS, self._enable_all)

    def on_faults_planned(self, count: int) -> None:
        """Where several brokers help each other, only a world without faults is held to its word about time."""
        if count and len(self.brokers) > 1:
            self.disturb_brokers(NEVER_NS)

    def disturb_brokers(self, for_ns: int) -> None:
        self.ledger.disturb(quiet_from_ns=self.clock.now_ns + for_ns + RECOVERY_NS)

    # -- people -------------------------------------------------------------------------------------------------

    def spawn_router(self, broker: Broker) -> None:
        self.routers.append(RouterActor(self.world, self.world.new_name("router"), broker))

    def spawn_worker(self, home: str) -> None:
        random = self.random
        holder = self._some_holder([each for each in self.holders if each.offered])
        services = random.sample(holder.offered, min(random.randint(1, 3), len(holder.offered)))
        # Now and then a slow one.
        quick_ns = QUICK_NS if random.random() < 0.7 else 20 * QUICK_NS
        heartbeat_ms = random.choice(self._setting.worker_heartbeats_ms)
        batch = random.choice(BATCHES)
        slots = slots_for(batch, random.randint(1, 2)) if batch else random.randint(1, 3)
        trade = Trade(home, services, slots, heartbeat_ms, quick_ns, holder, batch)
        self.hire(self.world.new_name("worker"), trade)

    def hire(self, name: str, trade: Trade) -> None:
        self.workers.append(Worker(self.world, self.ledger, name, trade, self.replace_worker))

    def replace_worker(self, worker: Worker) -> None:
        """It is gone, and another one comes."""
        self.workers.remove(worker)
        self.clock.after(self.random.randrange(NS_PER_S), partial(self.spawn_worker, worker.trade.home))

    def spawn_client(self) -> None:
        known = min(len(self.brokers), self.random.choice([1, 1, 2, 3]))
        addresses = [broker.address.frontend for broker in self.random.sample(list(self.brokers.values()), known)]
        holder = self._some_holder([each for each in self.holders if each.rights.call])
        name, steady = self.world.new_name("client"), self._setting.instant
        self.clients.append(Client(self.world, self.ledger, name, addresses, holder, is_steady=steady))

    def _some_holder(self, possible: list[Holder]) -> Holder:
        """Where keys are only accepted, some come without one."""
        if not possible or self._keys == "none" or (self._keys == "remote" and self.random.random() < 0.4):
            return ANYBODY
        return self.random.choice(possible)

    def _submit_somewhere(self) -> None:
        self.submit(self.random.choice(self.clients))

    def _submit_several(self) -> None:
        client = self.random.choice(self.clients)
        for _ in range(self.random.randint(3, 15)):
            self.submit(client)

    def submit(self, client: Client, named: tuple[str, str] | None = None) -> None:
        """A task of its own, which may have the service and the id of another one."""
        random = self.random
        service, message_id = named or (random.choice(SERVICES), "")
        policy = POLICIES.get(service, ServicePolicy())
        timeout_ms = random.choice(self._setting.timeouts_ms)
        delay_ms = random.choice(DELAYS_MS) if random.random() < self._delayed_share else 0
        # The client's word and the service's: either is enough for a task to be repeated.
        insists = random.random() < (0.9 if policy.delivery == "at_least_once" else 0.1)
        idempotent = random.random() < IDEMPOTENT_SHARE
        self._tasks += 1
        # Bodies are names here, and of different sizes so that bytes matter.
        body = b"%d." % self._tasks + b"x" * random.randrange(80)
        credit = random.choice(CREDITS) if random.random() < SHARE and not (named or idempotent) else 0
        now_ns = self.clock.now_ns
        self.ledger.entries[body] = LedgerEntry(
            service,
            insists or idempotent or policy.delivery == "at_least_once",
            now_ns,
            timeout_ms * NS_PER_MS,
            client,
            disturbed=client.paused or not client.plug.holds or now_ns < self.ledger.quiet_from_ns,
            stopped_ns=max(0, client.stopped_until_ns - now_ns),
            is_abandoned=policy.abandon == "cancel",
            credit=credit,
            holder=client.holder,
            delay_ns=delay_ms * NS_PER_MS,
        )
        # Mostly the same priority, so that the same headers recur.
        priority = random.choice([5, 5, 5, 0, 9])
        key = random.choice(TASK_KEYS) if self._setting.policy == "key" else ""
        client.submit(service, body, timeout_ms, priority, insists, message_id, key, delay_ms, credit, idempotent)
        if random.random() < CANCELLED_SHARE:
            for _ in range(random.choice([1, 1, 2])):
                after_ns = random.choice([0, random.randrange((delay_ms + timeout_ms) * NS_PER_MS)])
                self.clock.after(after_ns, partial(self._cancel, body))

    def _cancel(self, body: bytes) -> None:
        """By its client, whether it waits, runs, or has ended; and sometimes by another one, which must not matter."""
        client = self.ledger.entries[body].client
        if not isinstance(client, Client) or not client.alive:
            return
        if self.random.random() < 0.2:
            self._meddle(client)
        elif not client.paused:
            self.ledger.cancel(body, self.clock.now_ns)
            client.cancel(body)

    def _meddle(self, client: Client) -> None:
        """Somebody else sends the envelopes of all that it has open, and some that nobody has."""
        want = partial(stream.write_credit, last=PARTS_MAX)
        envelopes = [*client.session._pending, self.random.randbytes(8), b"", bytes(300)]
        for other in self.clients:
            if other is not client:
                other.plug.send([[b"", headers.CANCEL, envelope] for envelope in envelopes])
                other.plug.send([[b"", headers.CREDIT, want(envelope)] for envelope in envelopes])

    def note_strange_task(self, holder: Holder, service: str) -> bytes:
        """One that nobody waits for; its body."""
        self._tasks += 1
        body = b"%d." % self._tasks
        again = POLICIES.get(service, ServicePolicy()).delivery == "at_least_once"
        entry = LedgerEntry(service, again, self.clock.now_ns, NS_PER_S, None, disturbed=True, holder=holder)
        self.ledger.entries[body] = entry
        return body

    def family_of(self, worker: Worker) -> str:
        """That of the broker which it serves; empty if it serves none."""
        for broker in self.brokers.values():
            if worker.name.encode() in broker.core.sessions.by_identity:
                return broker.address.family
        return ""

    def edit_somewhere(self, key: str, value: dict[str, Any] | None) -> None:
        if there := self.admin.stewards():
            self.random.choice(there).edit(key, value)

    def _enable_all(self) -> None:
        """An admin who does not give up: somebody else may have said otherwise, at a broker that was cut off."""
        for steward in [broker.steward for broker in self.brokers.values() if broker.steward.alive][:1]:
            for name, state in steward.core.config.broker_states.items():
                if state != "active":
                    steward.edit(f"broker_state/{name}", {"state": "active"})
            for name, wish in steward.core.config.workers.items():
                if wish.state != "active":
                    steward.edit(f"worker/{name}", None)
            for holder in self.holders:
                self.admin.allow(steward, holder)
        self.clock.after(NS_PER_S, self._enable_all)

    # -- the run ------------------------------------------------------------------------------------------------

    def live(self) -> Result:
        world = self.world
        look_ns = QUIET_NS
        world.run_until(look_ns)
        while (self._left_behind() or self._unsettled()) and look_ns < END_NS:
            look_ns += LOOK_NS
            world.run_until(look_ns)
        self._check_end()
        for broker in self.brokers.values():
            broker.count_up()
        entries = self.ledger.entries.values()
        world.events["ran again"] += sum(entry.runs > 1 for entry in entries)
        return Result(
            world.seed,
            world.clock.steps,
            world.faults,
            len(self.brokers),
            len(entries),
            sum(entry.runs for entry in entries),
            _sorted(self.ledger.outcomes),
            events=_sorted(world.events) if len(self.brokers) > 1 else {},
            figures={"by_flow": sum(broker.by_flow for broker in self.brokers.values())},
        )

    def _check_end(self) -> None:
        """All faults are over, all tasks too: nothing may be left behind."""
        for body, entry in self.ledger.entries.items():
            entry.check(body, client_survived=entry.client in self.clients)
        demand(not (left := self._left_behind()), Invariant.NOTHING_LEFT, left)
        demand(not (left := self._unsettled()), Invariant.END, f"long after the last fault: {left}")

    def _left_behind(self) -> str:
        """What a dispatcher has not got rid of, in words; empty if all is well."""
        for broker in self.brokers.values():
            if left := left_behind(broker.core, self.clock.now_ns):
                return f"{broker.name}: {left}"
        connected = sorted(each for broker in self.brokers.values() for each in broker.core.sessions.by_identity)
        there = sorted(worker.name.encode() for worker in self.workers)
        return "" if connected == there else f"workers {there} are there, and {connected} are connected"

    def _unsettled(self) -> str:
        """Who is not yet in its normal state, in words; empty if all is well."""
        now_ns = self.clock.now_ns
        for broker in self.brokers.values():
            core, steward = broker.core, broker.steward.core
            if not broker.alive or steward.config.broker_states[broker.name] != "active":
                return f"{broker.name} does not serve"
            if len(steward.alive(now_ns)) != len(self.brokers) - 1:
                return f"{broker.name} does not hear all others"
            if any(not delegate.up for delegate in core.delegates.by_identity.values()):
                return f"{broker.name} has no connection to another one"
        if len({broker.steward.core.edits.digest for broker in self.brokers.values()}) > 1:
            return "the brokers do not agree"
        for worker in self.workers:
            if not worker.ready:
                return f"{worker.name} has no broker"
        for client in self.clients:
            if not client.plug.up or len(client.session):
                return f"{client.name} has no broker, or open tasks"
            if client.left:
                return f"{client.name} keeps {client.left} bytes or entries of tasks that have ended"
        return ""


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return {name: counter[name] for name in sorted(counter) if counter[name]}
