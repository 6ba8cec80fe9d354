"""What a client is told whose only broker, or whose workers, are restarted while it asks: of `map`, nothing may fail.

broker stopped     SIGINT, as Ctrl-C sends it, and started again
broker killed      SIGKILL to all of its processes, and started again
workers stopped    SIGINT to both workers, one after the other, and each started again
workers killed     SIGKILL to both workers, one after the other, and each started again

The client goes on meanwhile: tasks are open, and sent, before, while and after it happens.

Each with tasks that should run at least once, and with tasks that run at most once. Of those some cannot be known to
have run if a part is killed: they are UNKNOWN, and nothing else.
"""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

from famulus.client.threads import Client
from famulus.errors import OutcomeError
from famulus.lab.bench.fleet import Broker, Crew, Member
from famulus.lab.processes import family, send_signal

#: So many are open at once, of which so many are with each worker.
WINDOW = 500
SLOTS = 50
BODY = b"x" * 100
#: Longer than anything that is restarted here takes.
TIMEOUT_S = 120.0
WORKERS = 2
TIMES = 2
#: After each window of tasks, while something is restarted: that takes a second or so.
PAUSE_S = 0.2

Deed = Callable[["Scene"], None]


@dataclass
class Scene:
    """A broker and its workers, each of which can be started again where it was."""

    crew: Crew
    flags: tuple[str, ...]
    broker: Broker
    workers: list[Member]

    def broker_again(self, number: int) -> None:
        frontend, backend = (address.rpartition(":")[2] for address in self.broker[1:])
        _end(self.crew, self.broker.member, number)
        ports = ("--frontend-port", frontend, "--backend-port", backend)
        self.broker = self.crew.broker(*self.flags, *ports)

    def workers_again(self, number: int) -> None:
        for place, worker in enumerate(self.workers):
            _end(self.crew, worker, number)
            self.workers[place] = _worker(self.crew, self.broker)


DEEDS: dict[str, Deed] = {
    "broker stopped": lambda scene: scene.broker_again(signal.SIGINT),
    "broker killed": lambda scene: scene.broker_again(signal.SIGKILL),
    "workers stopped": lambda scene: scene.workers_again(signal.SIGINT),
    "workers killed": lambda scene: scene.workers_again(signal.SIGKILL),
}


def measure(bodies: int, tell: Callable[[str], None]) -> list[dict[str, object]]:
    """For each of them, how many tasks had which outcome."""
    found: list[dict[str, object]] = []
    for name, deed in DEEDS.items():
        for at_least_once in (True, False):
            began = time.monotonic()
            outcomes = told(bodies, deed, at_least_once)
            delivery = "at least once" if at_least_once else "at most once"
            found.append(
                {"what": name, "delivery": delivery, "seconds": time.monotonic() - began, "outcomes": dict(outcomes)}
            )
            tell(f"{name:15} {delivery:13} {' '.join(f'{each} {count:,}' for each, count in outcomes.items())}")
    return found


def told(bodies: int, deed: Deed, at_least_once: bool, times: int = TIMES) -> Counter[str]:
    """What became of so many tasks, if that is done so many times meanwhile."""
    with Crew() as crew:
        settings = crew.folder() / "broker.toml"
        delivery = "at_least_once" if at_least_once else "at_most_once"
        settings.write_text(f'[default_service]\ndelivery = "{delivery}"\nmax_attempts = 20\n')
        flags = ("--config", str(settings), "--drain-ms", "5000")
        broker = crew.broker(*flags)
        scene = Scene(crew, flags, broker, [_worker(crew, broker) for _ in range(WORKERS)])
        outcomes: Counter[str] = Counter()
        with Client(broker.frontend, timeout=TIMEOUT_S) as client:
            deeds = Deeds(partial(deed, scene), {bodies * number // (times + 1) for number in range(1, times + 1)})
            asked = deeds.meanwhile(bodies)
            for answer in client.map(
                "echo", asked, window=WINDOW, ordered=False, errors="return", at_least_once=at_least_once
            ):
                outcomes[_outcome(answer)] += 1
            deeds.end()
        return outcomes


class Deeds:
    """Something is done in a thread of its own, each time when so many tasks have been asked for."""

    def __init__(self, deed: Callable[[], None], when: set[int]) -> None:
        self._deed = deed
        self._when = when
        self._thread = ThreadPoolExecutor(1)
        self._done: list[Future[None]] = []

    def meanwhile(self, bodies: int) -> Iterator[bytes]:
        """So slowly, while it is done, that some are left for the end of it."""
        for number in range(bodies):
            if number in self._when:
                self.end()
                self._done.append(self._thread.submit(self._deed))
            if number % WINDOW == 0 and self._done and not self._done[-1].done():
                time.sleep(PAUSE_S)
            yield BODY

    def end(self) -> None:
        """Raises whatever went wrong."""
        for done in self._done:
            done.result()


def _outcome(answer: bytes | OutcomeError) -> str:
    if isinstance(answer, OutcomeError):
        return f"{answer.outcome} {answer.code}"
    return "OK" if answer == BODY else "WRONG"


def _worker(crew: Crew, broker: Broker) -> Member:
    return crew.worker("famulus", broker.backend, SLOTS)


def _end(crew: Crew, member: Member, number: int) -> None:
    send_signal(family(member.pid) if number == signal.SIGKILL else [member.pid], number)
    member.ended()
    crew.remove(member)
