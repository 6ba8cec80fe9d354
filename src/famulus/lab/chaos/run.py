"""One run: the plan is carried out under load, then everything heals, and everybody stops. Judges nothing."""

from __future__ import annotations

import heapq
import itertools
import signal
from collections.abc import Callable, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from random import Random
from time import monotonic, sleep

from famulus.errors import FamulusError
from famulus.lab.chaos.crowd import Crowd
from famulus.lab.chaos.edits import Admin
from famulus.lab.chaos.lan import Loopback, Namespaces, can_have_namespaces
from famulus.lab.chaos.ledgers import first_success, read_client
from famulus.lab.chaos.logs import Logs
from famulus.lab.chaos.plan import PARTING, Fault, plan
from famulus.lab.processes import send_signal

TURN_S = 0.02
#: Within this time after everything has healed all must be well again; longer on an overloaded machine.
HEAL_S = 30.0
#: For each second that we ourselves were kept waiting, everybody else may be late by this many.
SECONDS_PER_LAG = 10.0
STOP_S = 20.0
#: How long a process that was killed stays away.
AWAY_S = 0.5

Tell = Callable[[str], None]


def carry_out(
    folder: Path, brokers: int, workers: int, clients: int, callers: int, seed: int, seconds: float, tell: Tell,
    *, lan: bool = True,
) -> Run:  # fmt: skip
    """Start everybody, let the faults of this seed strike, and stop everybody. With `lan`, machines can be cut off."""
    parting = lan and can_have_namespaces()
    if not parting:
        tell("nobody is cut off: that takes network namespaces, so root and ip")
    machines = Namespaces() if parting else Loopback()
    with closing(Crowd(folder, machines, brokers, workers, clients, callers)) as network:
        names = (list(network.brokers), list(network.workers), list(network.clients))
        run = Run(network, plan(seed, seconds, *names, parting=parting), seed, tell)
        run.parting = parting
        run.go(seconds)
    return run


class Run:
    def __init__(self, network: Crowd, faults: Sequence[Fault], seed: int, tell: Tell) -> None:
        self.network = network
        self.admin = Admin(network)
        self.logs = Logs(network)
        self._tell = tell
        self._random = Random(f"chaos/values/{seed}")
        self._numbers = itertools.count()
        #: What is to be done, by its instant.
        self._agenda: list[tuple[float, int, Callable[[], object]]] = []
        self._faults = faults
        #: The number of the current one.
        self._parting = 0
        #: When each fault struck, on the clock of the ledgers.
        self.struck: list[tuple[float, Fault]] = []
        self.violations: list[str] = []
        #: Whether machines could be cut off.
        self.parting = False
        self.began_s = 0.0
        #: The most by which one of our own turns took longer than it should.
        self.lag_s = 0.0

    def go(self, seconds: float) -> None:
        network = self.network
        network.start_brokers()
        self._configure()
        network.start_others()
        self.began_s = monotonic()
        for fault in self._faults:
            self._later(self.began_s + fault.at_s, partial(self._strike, fault))
        try:
            while (now_s := monotonic()) < self.began_s + seconds:
                self._turn(now_s)
            self._heal()
            self._check_edits()
        finally:
            self.admin.close()
        self._stop()

    def _configure(self) -> None:
        first = next(iter(self.network.brokers))
        self.admin.put_for_sure(first, "family/main", {"fallback_families": ["reserve"]}, HEAL_S)
        self.admin.put_for_sure(first, "service/chaos.again", {"delivery": "at_least_once"}, HEAL_S)

    def _later(self, at_s: float, action: Callable[[], object]) -> None:
        heapq.heappush(self._agenda, (at_s, next(self._numbers), action))

    def _turn(self, now_s: float) -> None:
        while self._agenda and self._agenda[0][0] <= now_s:
            heapq.heappop(self._agenda)[2]()
        self.violations += self.network.tend(now_s)
        self.violations += self.logs.read(now_s)
        asleep_s = monotonic()
        sleep(TURN_S)
        self.lag_s = max(self.lag_s, monotonic() - asleep_s - TURN_S)

    @property
    def slack_s(self) -> float:
        """How much more time an overloaded machine is given."""
        return SECONDS_PER_LAG * self.lag_s

    # -- faults -------------------------------------------------------------------------------------------------

    def _strike(self, fault: Fault) -> None:
        verb, _, part = fault.kind.partition("_")
        if verb in ("kill", "stop", "drain") and not self.network[fault.whom[0]].pids(part):
            return  # It is away already, so nothing happens to it.
        self._tell(str(fault))
        self.struck.append((monotonic(), fault))
        if fault.kind in PARTING:
            self._part(fault)
        elif fault.kind == "edit_config":
            key = f"service/chaos.note{self._random.randrange(6)}"
            self._put_later(fault.whom[0], key, {"timeout_ms": self._random.randrange(1000, 9000)})
        elif fault.kind == "disable_broker":
            self._disable(fault)
        else:
            self._hit(verb, part, fault)

    def _hit(self, verb: str, part: str, fault: Fault) -> None:
        program = self.network[fault.whom[0]]
        self.logs.expect(program.name, part, monotonic() + fault.lasts_s)
        if verb == "stop":
            stopped = program.send(part, signal.SIGSTOP)
            self._later(monotonic() + fault.lasts_s, partial(send_signal, stopped, signal.SIGCONT))
        elif verb == "drain":
            program.end("supervisor", signal.SIGTERM, AWAY_S)
        elif part in ("broker", "supervisor", "worker", "client"):
            program.end(part, signal.SIGKILL, AWAY_S)
        else:
            program.send(part, signal.SIGKILL)

    def _part(self, fault: Fault) -> None:
        """One parting at a time: the next one replaces the one before."""
        lan = self.network.lan
        self._parting += 1
        if fault.kind == "cut_one_way":
            lan.heal()
            lan.cut_one_way(*fault.whom)
        else:
            lan.partition([], fault.whom)
        self._later(monotonic() + fault.lasts_s, partial(self._unpart, self._parting))

    def _unpart(self, number: int) -> None:
        if number == self._parting:
            self.network.lan.heal()

    def _disable(self, fault: Fault) -> None:
        (name,) = fault.whom
        others = [broker for broker in self.network.brokers if broker != name]
        at = self._random.choice(others)
        set_state = partial(self._put_later, at, f"broker_state/{name}")
        set_state({"state": "disabled"})
        self._later(monotonic() + fault.lasts_s, partial(set_state, {"state": "active"}))

    def _put_later(self, broker: str, key: str, value: object) -> None:
        """As soon as the admin has done what it was asked before."""
        self.admin.thread.submit(self.admin.put, broker, key, value)

    # -- the end ------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self._tell("everything heals")
        self.network.lan.heal()
        for program in self.network.programs:
            program.send("broker", signal.SIGCONT)
        self._agenda.clear()
        healed_s = monotonic()
        self._expect("the same config everywhere, and all brokers active", self._is_whole, healed_s)
        self._expect("a success of each client", lambda: self._each_succeeds(healed_s), healed_s)

    def _is_whole(self) -> bool:
        # Not in this thread: the admin may be busy with what was asked before the healing.
        looking = self.admin.thread.submit(self.admin.make_whole)
        while not looking.done():
            self._turn(monotonic())
        return looking.result()

    def _each_succeeds(self, since_s: float) -> bool:
        ledgers = [read_client(client.ledger) for client in self.network.clients.values()]
        return all(first_success(*ledger, since_s) is not None for ledger in ledgers)

    def _expect(self, what: str, holds: Callable[[], bool], healed_s: float) -> None:
        while not holds():
            if monotonic() > healed_s + HEAL_S + self.slack_s:
                self.violations.append(f"{what}: not within {HEAL_S:.0f} s after everything had healed")
                return
            self._turn(monotonic())

    def _check_edits(self) -> None:
        for name in self.network.brokers:
            try:
                self.violations += [f"{name} lacks the acknowledged edit {edit}" for edit in self.admin.missing(name)]
            except FamulusError as error:
                self.violations.append(f"{name} cannot be asked for its edits: {error}")

    def _stop(self) -> None:
        self._tell("everybody stops")
        # Clients first: they are the last in the list.
        for program in reversed(self.network.programs):
            if not program.stop(STOP_S):
                self.violations.append(f"{program.name} did not stop within {STOP_S:.0f} s")
        self.violations += self.logs.read(monotonic())
