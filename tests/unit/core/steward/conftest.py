"""A network of stewards without sockets and disks: letters are carried by hand, and time stands still.

    network = networks("b1", "b2")
    network["b1"].edits("service/echo", {"timeout_ms": 5})
    network.settle()
    assert network["b2"].core.edits.digest == network["b1"].core.edits.digest

`b1` is the root. All belong to family `a` of `b1`'s admin `ann`, unless `families` says otherwise. `network.settle()`
carries letters until nobody has anything to say; `network.later(ms)` lets time pass, with beats. A test can make
`network.publications` get lost, and `network.cut` those who cannot talk to each other.
"""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from famulus.core.clock import NS_PER_MS, NS_PER_S
from famulus.core.config.draft import Author, Draft, parents_for
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.core.config.schema import Broker
from famulus.core.steward.post import Frames, Identity
from famulus.core.steward.steward import Steward
from famulus.lab.sim.config.pen import Pen, broker_value, root_pen, signer, verify
from famulus.wire.peers import Place

START_MS = 1_700_000_000_000
PASSWORD = "correct horse"


def hashed(password: str) -> str:
    """What the toy passwords of these tests keep."""
    return f"hash-of-{password}-that-stays-here"


def admin_value(password: str) -> dict[str, str]:
    """What they make of an admin with this password: it can prove that an edit is its own."""
    return {"hash": hashed(password), "public_key": sha256(hashed(password).encode()).hexdigest()}


class Member:
    """A steward and its shell: what it writes to its disk, and what it sends after that."""

    def __init__(self, network: Network, pen: Pen, edits: list[SignedEdit]) -> None:
        self._network = network
        self.name = pen.broker
        self.pen = pen
        self.disk = list(edits)
        self.boots = 0
        #: Where it listens, if not where the config says; and what is left to find others without a log.
        self.place: Place | None = None
        self.known: dict[str, Broker] | None = None
        self.start()

    def start(self) -> None:
        """Begin, or begin again, with what is on the disk."""
        self.boots += 1
        edits = EditSet(self.pen.network, verify)
        edits.add(self.disk)
        public = self.pen.public_key
        me = Identity(self.pen.network, self.name, public, signer(public), self._network.now_ms + self.boots)
        self.core = Steward(me, edits, verify, self._network.make_nonce, self.place, self.known)

    def edits(self, key: str, value: Any, author: str = "ann") -> list[SignedEdit]:
        """An admin wants this to hold, whatever held before."""
        draft = Draft(key, "PUT" if value is not None else "DEL", value, parents_for(self.core.edits, key))
        signed = self.core.edit([draft], Author(author), self._network.now_ms)
        assert self.core.add(signed) == ()
        return signed

    def writes_log(self) -> list[SignedEdit]:
        unlogged = self.core.take_unlogged()
        self.disk += unlogged
        return unlogged

    def hears(self, frames: Frames, route: bytes = b"") -> None:
        self.core.on_letter(frames, route, self._network.now_ns, self._network.now_ms)

    def alive(self) -> list[str]:
        return [peer.identity for peer in self.core.alive(self._network.now_ns)]


class Network:
    def __init__(self, names: tuple[str, ...], families: dict[str, str]) -> None:
        self.now_ns = 1000 * NS_PER_S
        self.publications = True
        #: Pairs that cannot talk.
        self.cut: set[frozenset[str]] = set()
        #: Everything that was carried: from, to, frames.
        self.carried: list[tuple[str, str, Frames]] = []
        self._nonces = 0
        root = root_pen(names[0])
        self.id = root.network
        self.pens = {name: Pen(name, root.network) for name in names}
        self.first = self._first_edits(root, families)
        self.members = {name: Member(self, pen, self.first) for name, pen in self.pens.items()}

    def _first_edits(self, root: Pen, families: dict[str, str]) -> list[SignedEdit]:
        edits = [root.write_root()]
        wishes = {f"broker/{name}": broker_value(pen) for name, pen in self.pens.items() if name != root.broker}
        wishes |= {"family/a": {}, "admin/a/ann": {"hash": hashed(PASSWORD)}}
        for name, family in families.items():
            wishes[f"broker/{name}"] = broker_value(self.pens[name], family=family)
            wishes[f"family/{family}"] = {}
        for number, (key, value) in enumerate(wishes.items(), 1):
            parents = (edits[0].id,) if key == f"broker/{root.broker}" else ()
            edits.append(root.write(Draft(key, "PUT", value, parents), edits[0].id, number, number))
        return edits

    def __getitem__(self, name: str) -> Member:
        return self.members[name]

    @property
    def now_ms(self) -> int:
        return START_MS + self.now_ns // NS_PER_MS

    def make_nonce(self) -> str:
        self._nonces += 1
        return f"{self._nonces:032x}"

    def listen(self, *names: str) -> None:
        """These tell everybody where they listen, which is where their config says now, whatever it will say."""
        for name in names:
            core = self[name].core
            broker = core.config.brokers[name]
            core.place = Place(
                broker.host, broker.frontend_port, broker.backend_port, broker.config_pub_port, broker.peer_port
            )
        self.later(1000)

    # -- letters ------------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """Carry letters until nobody has anything to say."""
        for _ in range(1000):
            sent = [self._send(member) for member in self.members.values()]
            if not any(sent):
                return
        raise AssertionError("they do not come to an end")

    def _send(self, member: Member) -> bool:
        member.writes_log()
        leaving = member.core.take_letters()
        letters = [(other, member.name.encode(), frames) for other, frames in leaving.to_peers]
        letters += [(route.decode(), b"", frames) for route, frames in leaving.replies]
        if self.publications:
            letters += [(other, b"", frames) for frames in leaving.to_publish for other in self.members]
        for other, route, frames in letters:
            if other != member.name and other in self.members and {member.name, other} not in self.cut:
                self.carried.append((member.name, other, frames))
                self.members[other].hears(frames, route)
        return bool(letters)

    def beat(self) -> None:
        """Everybody whose heartbeat is due."""
        for member in self.members.values():
            member.core.on_tick(self.now_ns)

    def later(self, ms: float) -> None:
        """Time passes in steps of half a heartbeat."""
        until_ns = self.now_ns + int(ms * NS_PER_MS)
        while self.now_ns < until_ns:
            self.now_ns = min(self.now_ns + NS_PER_S // 2, until_ns)
            self.beat()
            self.settle()

    def digests(self) -> set[str]:
        return {member.core.edits.digest for member in self.members.values()}


@pytest.fixture
def networks() -> Callable[..., Network]:
    """A network of your own, of brokers with these names; the first one is its root."""

    def make(*names: str, **families: str) -> Network:
        return Network(names, families)

    return make


@pytest.fixture
def network(networks: Callable[..., Network]) -> Network:
    return networks("b1", "b2", "b3")
