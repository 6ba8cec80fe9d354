"""An admin who changes the config at any broker while everything fails, and remembers what was acknowledged.

A request may have to wait for a broker that is stopped, so the admin has a thread of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import monotonic, sleep

from famulus.admin.administration import Administration, Shown
from famulus.admin.connection import AdminConnection
from famulus.admin.secret import Secret
from famulus.core.config.draft import Draft
from famulus.errors import FamulusError, LabFailed
from famulus.lab.chaos.network import Network

ANSWER_S = 3.0


class Admin:
    def __init__(self, network: Network) -> None:
        self._network = network
        self._password = Secret(network.password)
        #: For callers that it must not keep waiting.
        self.thread = ThreadPoolExecutor(1)
        #: By key, the ids of edits that a broker said are safe.
        self.acknowledged: dict[str, list[str]] = {}
        self.refused = 0

    def close(self) -> None:
        self.thread.shutdown(cancel_futures=True)

    def put(self, broker: str, key: str, value: object) -> bool:
        """Whether it was acknowledged. All heads that are there are replaced."""
        try:
            with self._at(broker) as asking:
                heads = tuple(head.id for head in asking.show(key).key(key).heads)
                accepted = asking.edit([Draft(key, "PUT", value, heads)])
        except FamulusError:
            self.refused += 1
            return False
        self.acknowledged.setdefault(key, []).extend(accepted.edits)
        return True

    def put_for_sure(self, broker: str, key: str, value: object, within_s: float) -> None:
        deadline_s = monotonic() + within_s
        while not self.put(broker, key, value):
            if monotonic() > deadline_s:
                raise LabFailed(f"{broker} did not acknowledge {key} within {within_s:.0f} s")
            sleep(0.2)

    def shown(self, broker: str) -> Shown | None:
        """The config as this broker has it, if it answers."""
        try:
            with self._at(broker) as asking:
                return asking.show()
        except FamulusError:
            return None

    def agree(self, brokers: Iterable[str]) -> bool:
        """Whether all of them answer, with the same config."""
        digests = {shown and shown.digest for shown in map(self.shown, brokers)}
        return len(digests) == 1 and None not in digests

    def make_whole(self) -> bool:
        """Enable every broker that is not active; whether all are, with the same config."""
        first = next(iter(self._network.brokers))
        self._enable_all(first)
        if not self.agree(self._network.brokers):
            return False
        now = self.shown(first)
        return now is not None and all(each.state == "active" and each.alive for each in now.brokers.values())

    def _enable_all(self, at: str) -> None:
        """Every broker that was disabled meanwhile, perhaps at two brokers that did not hear from each other."""
        for name in self._network.brokers:
            shown = self.shown(at)
            key = shown.keys.get(f"broker_state/{name}") if shown is not None else None
            if key is not None and (key.is_in_conflict or key.value != {"state": "active"}):
                self.put(at, f"broker_state/{name}", {"state": "active"})

    def missing(self, broker: str) -> Iterable[str]:
        """Acknowledged edits that this broker does not have."""
        with self._at(broker) as asking:
            for key, ids in self.acknowledged.items():
                there = set(asking.history(key).ids)
                yield from (edit for edit in ids if edit not in there)

    @contextmanager
    def _at(self, broker: str) -> Iterator[Administration]:
        address, user = self._network.brokers[broker].address("frontend"), self._network.admin
        with (
            self._network.lan.inside(broker),
            AdminConnection(address, connect_s=ANSWER_S, answer_s=ANSWER_S) as connection,
        ):
            yield Administration(lambda command, arguments: connection.ask(user, self._password, command, arguments))
