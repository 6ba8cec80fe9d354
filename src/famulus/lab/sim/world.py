"""One run of the simulation: a broker, its routers, workers and clients, a plan of faults, and the invariants."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router
from famulus.lab.sim.actors import BrokerActor, ClientActor, RouterActor, ThiefActor, WorkerActor
from famulus.lab.sim.faults import plan_faults
from famulus.lab.sim.invariants import Invariant, check_end, demand, in_words, invariant_of
from famulus.lab.sim.ledger import Entry, Ledger
from famulus.lab.sim.network import Clock, Link
from famulus.wire import inner

FAULTS_END_NS = 6 * NS_PER_S
#: Long after the last fault: every time-out, silence and back-off of this world is over by then.
END_NS = 25 * NS_PER_S
#: Far more than any seed needs: a world that goes in circles is broken, too.
STEPS_MAX = 200_000

POLICIES = {
    "once": ServicePolicy(timeout_ms=1500, backlog_tasks_max=8, backlog_bytes_max=400, backlog_age_ms=800),
    "again": ServicePolicy(delivery="at_least_once", timeout_ms=2500, max_attempts=3, backlog_tasks_max=20),
    "rare": ServicePolicy(timeout_ms=1000, backlog_age_ms=300),
}
SERVICES = [*POLICIES, "undeclared", "nobody"]


class Failure(AssertionError):
    """A seed that breaks an invariant; running it again fails at the same step."""

    def __init__(self, seed: int, step: int, error: Exception) -> None:
        super().__init__(f"seed {seed}, step {step}: {in_words(error)}")
        self.seed = seed
        self.step = step
        #: Empty if it was another error.
        self.invariant = invariant_of(error)


@dataclass(frozen=True, slots=True)
class Result:
    seed: int
    steps: int
    tasks: int
    runs: int
    outcomes: dict[str, int]
    faults: int
    #: Tasks that needed no router, in the lives of all dispatchers.
    by_flow: int


class World:
    def __init__(self, seed: int, *, flows: bool = True, instant: bool = False) -> None:
        """With `instant` routers decide on the spot: then it makes no difference in time whether one is asked."""
        self.seed = seed
        self.instant = instant
        self.random = Random(seed)
        self.clock = Clock()
        self.ledger = Ledger()
        self.bounds = Bounds(open_tasks_max=60, questions_max=200, flows_max=20 if flows else 0)
        self.declared = [name.encode() for name in POLICIES]
        address = BrokerAddress("sim", "sim", "tcp://sim:1", "tcp://sim:2")
        self.book = Book(address, heartbeat_ms=self.random.choice([100, 300, 1000]), services=POLICIES)
        self.router = Router(self.book, lambda: "some-id")
        self.broker = BrokerActor(self)
        self.routers: list[RouterActor] = []
        self.workers: list[WorkerActor] = []
        self.clients: list[ClientActor] = []
        self.faults: list[str] = []
        #: How often somebody wanted another worker's name, and whether it got it.
        self.thefts = {True: 0, False: 0}
        self._born = 0
        self._tasks = 0
        self._settle()

    def _settle(self) -> None:
        for _ in range(0 if self.instant else self.random.randint(1, 3)):
            self.spawn_router()
        for _ in range(self.random.randint(1, 5)):
            self.spawn_worker()
        for _ in range(self.random.randint(1, 3)):
            self.spawn_client()
        for time_ns in sorted(self.random.randrange(FAULTS_END_NS) for _ in range(self.random.randint(20, 120))):
            self.clock.after(time_ns, self.submit)
        plan_faults(self, FAULTS_END_NS)

    # -- people of this world -----------------------------------------------------------------------------------

    def spawn_router(self) -> None:
        router = RouterActor(self, self._name("router"))
        self.routers.append(router)
        router.connect()

    def spawn_worker(self) -> None:
        services = self.random.sample([*POLICIES, "undeclared"], self.random.randint(1, 3))
        heartbeat_ms = self.random.choice([50, 300, 600])
        worker = WorkerActor(self, self._name("worker"), services, self.random.randint(1, 4), heartbeat_ms)
        self.workers.append(worker)
        worker.connect()

    def restart_worker(self, worker: WorkerActor) -> None:
        """Another one, under the same name and at once."""
        session = worker.session
        again = WorkerActor(self, worker.name, session.services, session.slots, worker.heartbeat_ms)
        self.workers[self.workers.index(worker)] = again
        again.connect()

    def spawn_thief(self, victim: WorkerActor) -> None:
        ThiefActor(self, self._name("thief"), victim).connect()

    def spawn_client(self) -> None:
        client = ClientActor(self, self._name("client"))
        self.clients.append(client)
        client.connect()

    def respawn_worker(self, worker: WorkerActor) -> None:
        self.workers.remove(worker)
        self.clock.after(self.random.randrange(NS_PER_S), self.spawn_worker)

    def submit(self) -> None:
        client = self.random.choice(self.clients)
        service = self.random.choice(SERVICES)
        policy = POLICIES.get(service, ServicePolicy())
        timeout_ms = self.random.choice([50, 300, 1000, 5000])
        # Bodies are names here, and of different sizes so that bytes matter.
        self._tasks += 1
        body = b"%d." % self._tasks + b"x" * self.random.randrange(100)
        timeout_ns = timeout_ms * NS_PER_MS
        self.ledger.entries[body] = Entry(
            service,
            policy.delivery == "at_least_once",
            self.clock.now_ns,
            timeout_ns,
            client,
            disturbed=client.paused or client.link is None or self.clock.now_ns < self.ledger.quiet_from_ns,
        )
        # Mostly the same priority, so that the same headers come again.
        client.submit(service, body, timeout_ms, self.random.choice([5, 5, 5, 0, 9]))

    def announce(self, kind: bytes, subject: bytes) -> None:
        """Over PUB and SUB: to whatever dispatcher is there then."""
        broker = self.broker
        link = Link(self.clock, self.random, b"", "announcement", broker, broker)
        link.to_broker(inner.write_announcement(kind, 0, subject))

    def _name(self, role: str) -> str:
        self._born += 1
        return f"{role}-{self._born}"

    # -- the run ------------------------------------------------------------------------------------------------

    def run(self) -> Result:
        try:
            while self.clock.next_ns < END_NS:
                self.clock.step()
                demand(self.clock.steps < STEPS_MAX, Invariant.END, "it does not come to an end")
            check_end(self)
        except Exception as error:  # whatever the core does wrong, the seed is what one wants to know
            raise Failure(self.seed, self.clock.steps, error) from error
        return Result(
            self.seed,
            self.clock.steps,
            len(self.ledger.entries),
            sum(entry.runs for entry in self.ledger.entries.values()),
            dict(self.ledger.outcomes),
            len(self.faults),
            self.broker.by_flow + self.broker.core.counters.by_flow,
        )


def simulate(seed: int) -> Result:
    return World(seed).run()
