"""A broker's steward: the real one, with a thin shell. It tells its broker who can help, and what the config says."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from famulus.core.clock import NEVER_NS, NS_PER_MS
from famulus.core.config.draft import Author, Draft, parents_for
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.core.routing.book import Book
from famulus.core.steward.books import book_of, offers_of
from famulus.core.steward.post import Frames, Identity, next_boot
from famulus.core.steward.principals import admission
from famulus.core.steward.steward import Steward
from famulus.lab.sim.actor import Actor
from famulus.lab.sim.config.pen import Pen, signer, verify
from famulus.lab.sim.tasks.access import Heard
from famulus.lab.sim.world import World
from famulus.wire import inner

BOOK_NS = 1000 * NS_PER_MS


class Broker(Protocol):
    """What a steward tells its broker."""

    name: str

    def announce(self, kind: bytes, epoch: int, subject: bytes) -> None: ...

    def on_drained(self, workers: list[str]) -> None: ...

    def on_offers(self, offers: list[inner.PeerOffer]) -> None: ...

    def on_book(self, book: Book) -> None: ...

    def on_principals(self, told: inner.Principals) -> None: ...


class StewardActor(Actor):
    def __init__(
        self,
        world: World,
        broker: Broker,
        first: list[SignedEdit],
        others: dict[str, StewardActor],
        heard: Heard | None = None,
    ) -> None:
        """It is added to `others`, which are all stewards of this network. `heard`: if brokers have keys here."""
        super().__init__(world, f"{broker.name}/steward")
        self._broker = broker
        self._others = others
        others[broker.name] = self
        self._heard_by = heard
        self._told_ns = 0
        self.pen = Pen(broker.name, first[0].edit.network)
        #: What it wrote down: all edits, and the number of its last start.
        self._disk = list(first)
        self._boot = 0
        self.start()

    def start(self) -> None:
        self.alive = True
        self._letters: list[tuple[bytes, Frames]] = []
        self._cuts: list[str] = []
        edits = EditSet(self.pen.network, verify)
        edits.add(self._disk)
        self._boot = next_boot(self._boot, self.world.wall_ms(self.pen.broker))
        me = Identity(self.pen.network, self.pen.broker, self.pen.public_key, signer(self.pen.public_key), self._boot)
        self.core = Steward(me, edits, verify, self.new_token)
        self._epoch = self._boot
        self._admit()
        self._changes = -1
        self._news = -1
        self._book_ns = 0
        self._wake_ns = NEVER_NS
        self.wake_at(self.clock.now_ns + self.random.randrange(BOOK_NS))

    def die(self, notice_ns: int) -> None:
        """The others learn of it within that time."""
        self.alive = False
        for other in self._others.values():
            if other is not self:
                self.clock.after(notice_ns, partial(other.cut, self.pen.broker))

    @property
    def book(self) -> Book:
        now_ns = self.clock.now_ns
        rights = self.admission.rights if self._heard_by is not None else None
        book = book_of(self.core.located, self.pen.broker, self.core.alive(now_ns), self._epoch, rights)
        assert book is not None, "its own broker is in its config from the beginning"
        return book

    def told(self) -> inner.Principals:
        """What the dispatcher hears about principals."""
        return self.admission.told(self._epoch)

    def _admit(self) -> None:
        if self._heard_by is not None:
            config = self.core.config
            self.admission = admission(config, self.pen.broker, self.world.wall_ms(self.pen.broker))
            self._heard_by.note(self.clock.now_ns, config)

    # -- letters ------------------------------------------------------------------------------------------------

    def post(self, route: bytes, frames: Frames) -> None:
        """A letter arrives, over the connection `route` or over its own."""
        if self.alive:
            self._letters.append((route, frames))
            self.wake_at(self.clock.now_ns + self.random.randrange(NS_PER_MS))

    def cut(self, identity: str) -> None:
        """Its connection to that peer breaks."""
        if self.alive:
            self._cuts.append(identity)
            self.wake_at(self.clock.now_ns)

    def run(self, now_ns: int) -> None:
        core, now_ms = self.core, self.world.wall_ms(self.pen.broker)
        letters, self._letters = self._letters, []
        for route, frames in letters:
            core.on_letter(frames, route, now_ns, now_ms)
        cuts, self._cuts = self._cuts, []
        for identity in cuts:
            core.on_cut(identity, now_ns)
        core.on_tick(now_ns)
        self._disk += core.take_unlogged()
        self._follow_config(now_ns)
        self._send()
        self.wake_at(max(now_ns + 1, min(core.next_due_ns, self._book_ns)))

    def _follow_config(self, now_ns: int) -> None:
        core = self.core
        if self._news != core.news:
            self._news = core.news
            self._book_ns = 0
        if self._changes != core.changes:
            self._changes = core.changes
            self._epoch += 1
            self._admit()
            self._book_ns = 0
            self._tell(partial(self._broker.announce, inner.CONFIG, self._epoch, b""))
        if now_ns >= self._book_ns:
            self._book_ns = now_ns + BOOK_NS
            offers = offers_of(core.located, self.pen.broker, core.alive(now_ns))
            self._tell(partial(self._broker.on_offers, offers))
            self._tell(partial(self._broker.on_drained, core.config.drained_workers(self.pen.broker)))
            if self._heard_by is None:
                self._tell(partial(self._broker.on_book, self.book))
            else:
                self._tell_rights(self.told(), self.book)

    def _tell(self, what: Callable[[], None]) -> None:
        """Over ipc; to whatever dispatcher is running then."""
        self.clock.after(self.random.randrange(2 * NS_PER_MS), what)

    def _tell_rights(self, told: inner.Principals, book: Book) -> None:
        """In order: what was told before must not come after it."""
        now_ns = self.clock.now_ns
        for what in (partial(self._broker.on_principals, told), partial(self._broker.on_book, book)):
            self._told_ns = max(self._told_ns, now_ns + self.random.randrange(2 * NS_PER_MS))
            self.clock.at(self._told_ns, what)

    def _send(self) -> None:
        core, me = self.core, self.pen.broker
        sent = core.take_letters()
        letters = [(identity, me.encode(), frames) for identity, frames in sent.to_peers]
        letters += [(route.decode(), b"", frames) for route, frames in sent.replies]
        letters += [(identity, b"", frames) for frames in sent.to_publish for identity in core.peers]
        for identity, route, frames in letters:
            self.world.network.carry(me, identity, partial(self._others[identity].post, route, frames))

    # -- admins -------------------------------------------------------------------------------------------------

    def edit(self, key: str, value: dict[str, Any] | None) -> None:
        """An admin asks this broker for it; None: the key is to go."""
        draft = Draft(key, "DEL" if value is None else "PUT", value, parents_for(self.core.edits, key))
        edits = self.core.edit([draft], Author("admin"), self.world.wall_ms(self.pen.broker))
        self.core.add(edits)
        self.wake_at(self.clock.now_ns)
