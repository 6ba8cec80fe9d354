"""Who is behind a connection, and how much it may have open. Knows no key: a listener says which principal has come.

A port without keys has no principals: everybody has the same account there, which may do anything. At a port with keys
nobody is anybody in particular before the listener has said so; and a principal that the config does not know any more
has an account that may do nothing, for as long as one of its connections is there. So has a connection whose key is
not its principal's any more: whoever has got hold of a key that was replaced must not come back with the name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.flows import FlowTable
from famulus.wire import inner

if TYPE_CHECKING:
    from famulus.core.dispatch.flows import Flows

_BROKER: Final = inner.BROKER.encode()


class Account:
    """One principal: what it may do, and what it has open."""

    __slots__ = ("_counted_ns", "_left", "flows", "is_limited", "is_named", "is_void", "name", "open_tasks", "terms")

    def __init__(self, name: bytes) -> None:
        self.name = name
        #: What it calls is counted.
        self.is_named = bool(name)
        #: What routers decided about the headers of those who have the same rights.
        self.flows = FlowTable()
        self.terms = inner.NO_TERMS
        self.is_limited = False
        #: The config does not know it (any more): nothing that it sends is read.
        self.is_void = True
        #: Tasks without an outcome.
        self.open_tasks = 0
        #: How many tasks it may send at once; time refills it, up to what it may send in a second.
        self._left = 0.0
        self._counted_ns = 0

    @property
    def is_broker(self) -> bool:
        return self.name.startswith(_BROKER)

    def follow(self, terms: inner.PrincipalTerms, flows: FlowTable) -> None:
        """What the config says about it now."""
        if self.is_void or terms.tasks_per_s != self.terms.tasks_per_s:
            self._left = float(terms.tasks_per_s)
        self.terms = terms
        self.flows = flows
        self.is_limited = bool(terms.open_tasks_max or terms.tasks_per_s)
        self.is_void = False

    def void(self) -> None:
        self.flows = FlowTable()
        self.is_void = True

    def refusal(self, now_ns: int) -> bytes:
        """Why a task that was just counted as open may not come; empty if it may."""
        terms = self.terms
        if terms.open_tasks_max and self.open_tasks > terms.open_tasks_max:
            return inner.REJECTED_TOO_MANY_OPEN
        if terms.tasks_per_s:
            most = float(terms.tasks_per_s)
            self._left = min(most, self._left + (now_ns - self._counted_ns) * most / NS_PER_S)
            self._counted_ns = now_ns
            if self._left < 1:
                return inner.REJECTED_TOO_FAST
            self._left -= 1
        return b""


class Bearers:
    """The connections of one principal by one of its keys."""

    __slots__ = ("account", "former", "peers")

    def __init__(self, name: bytes) -> None:
        #: Theirs while the key is not its principal's: void.
        self.former = self.account = Account(name)
        self.peers: set[bytes] = set()


class Presence:
    """The connections of one principal to one port."""

    __slots__ = ("connections", "since_ns")

    def __init__(self, since_ns: int) -> None:
        self.connections = 0
        #: Since when there is at least one.
        self.since_ns = since_ns


class Accounts:
    def __init__(self, flows: Flows) -> None:
        self._flows = flows
        #: Whoever is not in `by_peer`.
        self.others = Account(b"")
        self.others.follow(inner.NO_TERMS, flows.table(b""))
        #: By the name of a connection. Every message looks here; only we change it.
        self.by_peer: dict[bytes, Account] = {}
        self._by_name: dict[bytes, Account] = {}
        #: By the key that they have shown, and their name.
        self._bearers: dict[tuple[bytes, bytes], Bearers] = {}
        self._keys: dict[bytes, bytes] = {}
        #: What `update` brought last: names by keys, and of which config that was.
        self._names: dict[bytes, str] = {}
        self.epoch = 0
        #: Who is connected, by principal and port.
        self.presences: dict[tuple[bytes, bytes], Presence] = {}

    def guard(self) -> None:
        """From now on nobody may do anything whom the config does not know."""
        self.others.void()

    def of(self, name: bytes) -> Account:
        """The account of a principal, whether it has a connection or not."""
        found = self._by_name.get(name)
        if found is None:
            found = self._by_name[name] = Account(name)
        return found

    def come(self, port: bytes, peers: list[tuple[bytes, str, bytes]], now_ns: int) -> None:
        for peer, principal, key in peers:
            name = principal.encode()
            bearers = self._bearers.get((key, name))
            if bearers is None:
                bearers = self._bearers[key, name] = Bearers(name)
                bearers.account = self._account_of(key, name, bearers)
            bearers.peers.add(peer)
            self.by_peer[peer] = bearers.account
            self._keys[peer] = key
            presence = self.presences.get((name, port))
            if presence is None:
                presence = self.presences[name, port] = Presence(now_ns)
            presence.connections += 1

    def gone(self, port: bytes, peers: list[bytes]) -> None:
        for peer in peers:
            account = self.by_peer.pop(peer, None)
            if account is not None:
                self._forget_bearer(peer, account.name)
                presence = self.presences[account.name, port]
                presence.connections -= 1
                if not presence.connections:
                    del self.presences[account.name, port]

    def update(self, principals: inner.Principals) -> None:
        """All whom the config knows now."""
        self.epoch, self._names = principals.epoch, principals.keys
        if principals.plain:
            self.others.follow(inner.NO_TERMS, self._flows.table(b""))
        else:
            self.others.void()
        for name, terms in principals.terms.items():
            self.of(name.encode()).follow(terms, self._flows.table(terms.rights))
        self._look_at_keys()
        known = {name.encode() for name in principals.terms}
        there = {account.name for account in self.by_peer.values()}
        for former in self._by_name.keys() - known:
            self._by_name[former].void()
            if former not in there:
                del self._by_name[former]
        self._flows.keep({terms.rights for terms in principals.terms.values()})

    def now_of(self, peer: bytes, before: Account) -> Account:
        """Of a connection that has asked something: its key may have become void in the meantime."""
        return self.by_peer.get(peer, before)

    def is_current(self, account: Account, epoch: int) -> bool:
        """Whether its rights are those of the config of this epoch."""
        return not account.name or epoch == self.epoch

    def _account_of(self, key: bytes, name: bytes, bearers: Bearers) -> Account:
        return self.of(name) if self._names.get(key, "").encode() == name else bearers.former

    def _look_at_keys(self) -> None:
        for (key, name), bearers in self._bearers.items():
            account = self._account_of(key, name, bearers)
            if account is not bearers.account:
                bearers.account = account
                self.by_peer.update(dict.fromkeys(bearers.peers, account))

    def _forget_bearer(self, peer: bytes, name: bytes) -> None:
        place = self._keys.pop(peer), name
        peers = self._bearers[place].peers
        peers.discard(peer)
        if not peers:
            del self._bearers[place]
