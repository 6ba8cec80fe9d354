"""One run: a family of brokers and those that it falls back on, their workers and clients, a plan of faults."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from random import Random

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.config.schema import State
from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.lab.sim.brokers.broker import Broker
from famulus.lab.sim.brokers.charter import first_edits
from famulus.lab.sim.brokers.client import Client
from famulus.lab.sim.brokers.faults import plan_faults
from famulus.lab.sim.brokers.ground import Ground
from famulus.lab.sim.brokers.invariants import check_end
from famulus.lab.sim.brokers.plug import Plug
from famulus.lab.sim.brokers.worker import Worker
from famulus.lab.sim.config.pen import root_pen
from famulus.lab.sim.hands import QUICK_NS
from famulus.lab.sim.invariants import Invariant, demand, in_words, invariant_of
from famulus.lab.sim.ledger import Entry, Ledger
from famulus.lab.sim.network import Clock

BROKERS_MIN = 3
BROKERS_MAX = 16
FAULTS_END_NS = 5 * NS_PER_S
#: The last fault is over for longer than any task has time, and what is still at work may end.
QUIET_NS = FAULTS_END_NS + 7 * NS_PER_S
#: By then every silence, rest and back-off of this world is over, too.
END_NS = QUIET_NS + 25 * NS_PER_S
LOOK_NS = 200 * NS_PER_MS
STEPS_MAX = 1_500_000
#: What clocks show at the beginning, if they are right.
NOON_MS = 1_800_000_000_000

POLICIES = {
    "once": ServicePolicy(timeout_ms=3000, backlog_tasks_max=6, backlog_bytes_max=400, backlog_age_ms=800),
    "again": ServicePolicy(delivery="at_least_once", timeout_ms=4000, max_attempts=3, backlog_tasks_max=12),
    "rare": ServicePolicy(timeout_ms=2000, backlog_age_ms=500),
}
SERVICES = ["once", "once", "again", "again", "rare", "undeclared", "nobody"]


@dataclass(frozen=True, slots=True)
class Result:
    """What became of one seed; `what` is empty if every invariant held."""

    seed: int
    brokers: int
    steps: int
    tasks: int = 0
    runs: int = 0
    outcomes: tuple[tuple[str, int], ...] = ()
    #: What is worth a mention, and how often it happened.
    events: tuple[tuple[str, int], ...] = ()
    faults: tuple[str, ...] = ()
    what: str = ""
    #: The one that was broken; empty if none was, or if something else went wrong.
    invariant: str = ""


class World:
    def __init__(self, seed: int, brokers: int | None = None) -> None:
        """Without `brokers` the seed says how many the family has."""
        self.seed = seed
        self.random = Random(f"brokers/{seed}")
        self.clock = Clock()
        self._starts_ns = self.clock.now_ns
        self.ledger = Ledger()
        self.ground = Ground(self.clock)
        self.events: Counter[str] = Counter()
        self.bounds = Bounds(open_tasks_max=60, questions_max=500, flows_max=20)
        self.declared = [b"once"]
        count = brokers or self.random.choice([BROKERS_MIN, 3, 3, 4, 4, 5, 6, 8, BROKERS_MAX])
        families = {f"b{number}": "own" for number in range(count)}
        families |= {f"spare{number}": "spare" for number in range(self.random.randint(1, 2))}
        self.clock_errors_ms = dict.fromkeys(families, 0)
        #: All that are connected.
        self.plugs: dict[Plug, None] = {}
        #: Which brokers a task has really come through, by the connection and the ticket that it came with.
        self.ways: dict[tuple[bytes, bytes], list[str]] = {}
        self.workers: list[Worker] = []
        self.clients: list[Client] = []
        self.faults: list[str] = []
        self._born = 0
        self._tasks = 0
        first = first_edits(families, self.random.choice([200, 500]), POLICIES)
        network = root_pen("b0").network
        self.brokers = {name: Broker(self, name, network, first) for name in families}
        self._places = {
            address: broker.name for broker in self.brokers.values() for address in (broker.frontend, broker.backend)
        }
        self._settle()

    def _settle(self) -> None:
        for broker in self.brokers.values():
            for _ in range(self.random.choice([0, 1, 1, 2, 3])):
                self.spawn_worker(broker.backend)
        for _ in range(self.random.randint(2, len(self.brokers))):
            self.spawn_client()
        self._plan_tasks()
        self._quiet = plan_faults(self, FAULTS_END_NS) == 0
        # So that at the end every broker can serve.
        self.clock.after(FAULTS_END_NS, self._enable_all)

    def _plan_tasks(self) -> None:
        """One by one, and several at once: most of what is interesting happens where slots are few."""
        for _ in range(self.random.randint(20, 60)):
            self.clock.after(self.random.randrange(FAULTS_END_NS), self._submit_somewhere)
        for _ in range(self.random.randint(1, 8)):
            self.clock.after(self.random.randrange(FAULTS_END_NS), self._submit_several)

    # -- people of this world -----------------------------------------------------------------------------------

    def spawn_worker(self, home: str) -> None:
        services = self.random.sample(["once", "again", "rare", "undeclared"], self.random.randint(1, 3))
        # Now and then a slow one.
        quick_ns = QUICK_NS if self.random.random() < 0.7 else 20 * QUICK_NS
        worker = Worker(self, self._name("worker"), home, services, self.random.randint(1, 3), quick_ns)
        self.workers.append(worker)

    def respawn_worker(self, worker: Worker) -> None:
        self.workers.remove(worker)
        self.clock.after(self.random.randrange(NS_PER_S), lambda: self.spawn_worker(worker.home))

    def spawn_client(self) -> None:
        given = self.random.sample(list(self.brokers.values()), self.random.choice([1, 1, 2, 3]))
        self.clients.append(Client(self, self._name("client"), [broker.frontend for broker in given]))

    def _submit_somewhere(self) -> None:
        self.submit(self.random.choice(self.clients))

    def _submit_several(self) -> None:
        client = self.random.choice(self.clients)
        for _ in range(self.random.randint(3, 15)):
            self.submit(client)

    def submit(self, client: Client, named: tuple[str, str] | None = None) -> None:
        """A task of its own, which may have the service and the id of another one."""
        service, message_id = named or (self.random.choice(SERVICES), "")
        policy = POLICIES.get(service, ServicePolicy())
        timeout_ms = self.random.choice([200, 1000, 2500, 4000])
        # The client's word and the service's: either is enough for a task to be repeated.
        insists = self.random.random() < (0.9 if policy.delivery == "at_least_once" else 0.1)
        self._tasks += 1
        # Bodies are names here, and of different sizes so that bytes matter.
        body = b"%d." % self._tasks + b"x" * self.random.randrange(80)
        self.ledger.entries[body] = Entry(
            service,
            insists or policy.delivery == "at_least_once",
            self.clock.now_ns,
            timeout_ms * NS_PER_MS,
            client,
            # Only a world without faults is held to its word about time, once its connections are there.
            disturbed=not self._quiet or self.clock.now_ns < self._starts_ns + NS_PER_S,
        )
        client.submit(service, body, timeout_ms, self.random.choice([5, 5, 5, 0, 9]), insists, message_id)

    def _name(self, role: str) -> str:
        self._born += 1
        return f"{role}-{self._born}"

    # -- places -------------------------------------------------------------------------------------------------

    def place_of(self, address: str) -> str:
        return self._places[address]

    def broker_at(self, address: str) -> Broker:
        return self.brokers[self._places[address]]

    def new_peer(self, place: str) -> bytes:
        """A routing id that no connection ever had."""
        self._born += 1
        return f"{place}/{self._born}".encode()

    def wall_ms(self, name: str) -> int:
        """As this broker's clock has it."""
        return NOON_MS + self.clock.now_ns // NS_PER_MS + self.clock_errors_ms[name]

    # -- faults -------------------------------------------------------------------------------------------------

    def part(self, one: frozenset[str], other: frozenset[str]) -> None:
        """What is sent across waits for the end of the parting, or for the end of its connection."""
        for_ns = self.random.randrange(100 * NS_PER_MS, 3 * NS_PER_S)
        part = self.ground.part(one, other, for_ns)
        for plug in list(self.plugs):
            if plug.link is not None and part.lies_between(plug.place, plug.target):
                plug.link.stall(part.until_ns)
                if self.random.random() < 0.6:
                    cut_at_ns = self.clock.now_ns + self.random.randrange(for_ns)
                    self.clock.at(cut_at_ns, lambda link=plug.link: link.cut(NS_PER_S))  # type: ignore[misc]

    def set_state(self, name: str, state: State) -> None:
        """By an admin at any broker that is there."""
        there = [broker.steward for broker in self.brokers.values() if broker.steward.alive]
        if there:
            self.random.choice(there).set_state(name, state)

    def _enable_all(self) -> None:
        """An admin who does not give up: somebody else may have said otherwise, at a broker that was cut off."""
        for steward in [broker.steward for broker in self.brokers.values() if broker.steward.alive][:1]:
            for name, state in steward.core.config.broker_states.items():
                if state != "active":
                    steward.set_state(name, "active")
        self.clock.after(NS_PER_S, self._enable_all)

    def on_drained(self, broker: Broker) -> None:
        self.events["broker drained"] += 1
        broker.die(0, self.random.randrange(50 * NS_PER_MS, NS_PER_S), with_steward=True)

    def count_up(self, broker: Broker) -> None:
        """What its dispatcher counted in the life that is over now."""
        counters = broker.core.counters
        self.events["asked again under the same id"] += counters.repeated
        self.events["another attempt"] += counters.attempts_again
        self.events["late answer"] += counters.late

    # -- the run ------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        """Broken invariants, and whatever else the core may raise, leave from here."""
        self._run_until(QUIET_NS)
        look_ns = QUIET_NS
        while self.unsettled() and look_ns < END_NS:
            look_ns += LOOK_NS
            self._run_until(look_ns)
        check_end(self)
        for broker in self.brokers.values():
            self.count_up(broker)
        entries = self.ledger.entries.values()
        self.events["ran again"] += sum(entry.runs > 1 for entry in entries)
        return Result(
            seed=self.seed,
            brokers=len(self.brokers),
            steps=self.clock.steps,
            tasks=len(entries),
            runs=sum(entry.runs for entry in entries),
            outcomes=_sorted(self.ledger.outcomes),
            events=_sorted(self.events),
            faults=tuple(self.faults),
        )

    def _run_until(self, time_ns: int) -> None:
        while self.clock.next_ns < self._starts_ns + time_ns:
            self.clock.step()
            demand(self.clock.steps < STEPS_MAX, Invariant.END, "it does not come to an end")

    def unsettled(self) -> str:
        """What is not yet as it should be when nothing is amiss, in words; nothing if all is well."""
        now_ns = self.clock.now_ns
        for broker in self.brokers.values():
            core, steward = broker.core, broker.steward.core
            if not broker.alive or steward.config.broker_states[broker.name] != "active":
                return f"{broker.name} does not serve"
            if core.outcomes.open_tasks:
                return f"{broker.name} has {core.outcomes.open_tasks} open tasks"
            if any(delegate.running for delegate in core.delegates.by_identity.values()):
                return f"{broker.name} waits for answers of others"
            if len(steward.alive(now_ns)) != len(self.brokers) - 1:
                return f"{broker.name} does not hear all others"
            if any(not delegate.up for delegate in core.delegates.by_identity.values()):
                return f"{broker.name} has no connection to another one"
            if any(session.free != session.slots for session in core.sessions.by_peer.values()):
                return f"{broker.name} has lost slots of its workers"
        if len({broker.steward.core.edits.digest for broker in self.brokers.values()}) > 1:
            return "the brokers do not agree"
        for worker in self.workers:
            if not worker.ready:
                return f"{worker.name} has no broker"
        for client in self.clients:
            if not client.plug.up or len(client.session):
                return f"{client.name} has no broker, or open tasks"
        return ""


def _sorted(counter: Counter[str]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted((name, count) for name, count in counter.items() if count))


def run_seed(seed: int, brokers: int | None = None) -> Result:
    """Without `brokers` the seed says how many."""
    return run_world(World(seed, brokers))


def run_world(world: World) -> Result:
    """Whatever happens in there, it happened to this seed at this step."""
    try:
        return world.run()
    except Exception as error:
        steps = world.clock.steps
        what = f"seed {world.seed}, step {steps}: {in_words(error)}"
        return Result(
            world.seed, len(world.brokers), steps, faults=tuple(world.faults), what=what, invariant=invariant_of(error)
        )
