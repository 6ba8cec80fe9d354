"""The steward: holds the edits of the network's config, keeps them in step with its peers, and knows who they are.

The shell around it reads sockets, calls `on_...`, then writes `take_unlogged()` to the disk and fsyncs, and only then
sends `take_letters()`: nobody may hear of an edit that a crash could still undo. It comes back at `next_due_ns` at the
latest. Two times are passed in: `now_ns` from a monotonic clock, for all waiting, and `now_ms` from the wall clock, for
the instants in edits.

A broker whose log was lost is `behind`: it knows its key, its network, and where others were when its config last
changed. It is `joining`, whatever the config may say by then, and accepts no edits, until it holds what one of its
peers holds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from msgspec.structs import replace

from famulus.core.clock import NEVER_NS
from famulus.core.config import sync
from famulus.core.config.clock import HybridClock
from famulus.core.config.draft import Author, Draft, make
from famulus.core.config.edit import SignedEdit, sign
from famulus.core.config.edit_set import EditSet, Verify
from famulus.core.config.effective import Effective, effective
from famulus.core.config.schema import Broker, State
from famulus.core.steward.peer import BEAT_NS, Peer, offers_more, placed
from famulus.core.steward.post import Frames, Identity, Letters, Post
from famulus.errors import ProtocolError
from famulus.wire import peers, reasons
from famulus.wire.inner import Errors, Work

#: Why a broker that is behind accepts no edits.
BEHIND: Final = "this broker lost its config, and is catching up with its peers; ask another one"


class Steward:
    def __init__(
        self,
        me: Identity,
        edits: EditSet,
        verify: Verify,
        make_nonce: Callable[[], str],
        place: peers.Place | None = None,
        known: Mapping[str, Broker] | None = None,
        dashboard: str = "",
    ) -> None:
        """`place`: where we listen; if None, where the config says. `dashboard`: the address of ours, for others.

        `known`: where brokers were, for a broker whose edits were damaged: the config may no longer say whom to ask.
        """
        self.me = me
        self.place = place
        self.dashboard = dashboard
        self.edits = edits
        self.post = Post(me, verify)
        self.clock = HybridClock()
        self.peers: dict[str, Peer] = {}
        self.letters = Letters()
        #: Letters that were not genuine, or made no sense.
        self.refused = 0
        #: Edits that became part of the config since the last look, for the journal.
        self.taken: list[SignedEdit] = []
        #: Grows whenever the config changes.
        self.changes = 0
        #: Grows whenever a peer is heard that was not, or is lost, or offers a service that it did not offer before.
        self.news = 0
        self._make_nonce = make_nonce
        self._unlogged: list[SignedEdit] = []
        self._work: dict[str, peers.Work] = {}
        #: The workers that the dispatcher ignores: who, the faults, and the seconds left.
        self.errors: Sequence[Errors] = ()
        self._slots: peers.Slots | None = None
        #: The peers that are heard.
        self.heard: frozenset[str] = frozenset()
        self._beat_ns = self._loss_ns = 0
        self._now_ms = me.boot
        for signed in edits:
            self.clock.observe(signed.edit.hlc, me.boot)
        self.config: Effective = effective(edits)
        self._known = {identity: broker for identity, broker in (known or {}).items() if identity != me.name}
        #: Our log was lost, and we have not caught up yet.
        self.behind = known is not None and me.name not in self.config.brokers
        #: The config with every broker where it actually listens, and ourselves in our actual state.
        self.located: Effective = self.config
        #: Where to connect to each peer.
        self.aims: dict[str, Broker] = {}
        self._aimed = False
        self._meet_peers()

    @property
    def state(self) -> State:
        return "joining" if self.behind else self.config.broker_states.get(self.me.name, "joining")

    @property
    def next_due_ns(self) -> int:
        return min(self._beat_ns, self._loss_ns)

    def take_letters(self) -> Letters:
        letters, self.letters = self.letters, Letters()
        return letters

    def take_unlogged(self) -> list[SignedEdit]:
        unlogged, self._unlogged = self._unlogged, []
        return unlogged

    # -- letters come -------------------------------------------------------------------------------------------

    def on_letter(self, frames: Frames, route: bytes, now_ns: int, now_ms: int) -> None:
        """A letter that came over the connection `route`; empty for our own connection or the publications."""
        self._now_ms = now_ms
        try:
            letter = self.post.read(frames, self._key_of)
            peer = self.peers.get(letter.sender)
            if peer is None:
                raise ProtocolError(reasons.NOT_ALLOWED, "no such broker is known here")
            for content in self._answers(letter.content, peer, now_ns):
                self._send(letter.sender, route, content)
        except ProtocolError:
            self.refused += 1

    def _answers(self, content: peers.Content, peer: Peer, now_ns: int) -> list[peers.Content]:
        if isinstance(content, peers.Beat):
            former, is_news = peer.place, offers_more(content.work, peer.work)
            peer.hear(content, now_ns)
            self.news += is_news
            if peer.place != former:
                self._locate()
            self._compare(content, peer)
            told = sync.Summary(content.version, content.digest)
            return [peers.Config(sync.write(each)) for each in sync.answer(self.edits, told)]
        if isinstance(content, peers.Config):
            message = sync.read(content.data)
            if isinstance(message, sync.Edits):
                self.add(message.edits)
                return [peers.Config(sync.write(each)) for each in sync.missing(self.edits)]
            return [peers.Config(sync.write(each)) for each in sync.answer(self.edits, message)]
        raise ProtocolError(reasons.UNKNOWN_REQUEST, "not between brokers that know each other")

    def _send(self, identity: str, route: bytes, content: peers.Content) -> None:
        frames = self.post.write(content)
        if route:
            self.letters.replies.append((route, frames))
        else:
            self.letters.to_peers.append((identity, frames))

    def _key_of(self, identity: str) -> str:
        broker = self.config.brokers.get(identity) or self._known.get(identity)
        return broker.public_key if broker is not None else ""

    def _compare(self, beat: peers.Beat, peer: Peer) -> None:
        """A broker that was behind has caught up when it holds what a peer holds that is not behind itself."""
        config = self.config
        if self._known or self.behind:
            whole = beat.state == config.broker_states.get(peer.identity)
            if whole and beat.digest == self.edits.digest and self.me.name in config.brokers:
                self._known.clear()
                self.behind = False
                self.changes += 1
                self._meet_peers()

    # -- edits --------------------------------------------------------------------------------------------------

    def add(self, edits: Sequence[SignedEdit], *, logged: bool = False) -> tuple[str, ...]:
        """Take edits, wherever they come from. Returns why some were refused."""
        added = self.edits.add(edits)
        if added.new:
            for signed in added.new:
                self.clock.observe(signed.edit.hlc, self._now_ms)
            if not logged:
                self._unlogged += added.new
            self.taken += added.new
            self._change(added.new)
        return added.refused

    def edit(self, drafts: Sequence[Draft], author: Author, now_ms: int) -> list[SignedEdit]:
        """Edits from these drafts, accepted and signed by us, but not yet part of the config: see `add`."""
        me = self.me
        if self.behind:
            raise ProtocolError(reasons.DISABLED, BEHIND)
        grant = self.edits.grant_of(me.name, me.public_key)
        if not grant:
            raise ProtocolError(reasons.DISABLED, "this broker is not known to the network (any more)")
        edits = []
        for draft in drafts:
            hlc, nonce = self.clock.next(now_ms), self._make_nonce()
            edit = make(draft, author, me.network, me.name, grant, hlc, nonce)
            edits.append(sign(edit, me.sign, author.signers))
        return edits

    def _change(self, new: Sequence[SignedEdit]) -> None:
        self.config = effective(self.edits)
        self.changes += 1
        self._meet_peers()
        for message in sync.news(self.edits, new):
            self.letters.to_publish.append(self.post.write(peers.Config(sync.write(message))))

    def _meet_peers(self) -> None:
        """Peers are those that the config names; one that moved is the same peer at another place."""
        met = {}
        for identity, broker in (self._known | self.config.brokers).items():
            if identity != self.me.name and self._talks_to(identity):
                met[identity] = self.peers.get(identity) or Peer(identity, broker)
                met[identity].broker = broker
        self.peers = met
        self.post.forget(set(met))
        self._locate()

    def _talks_to(self, identity: str) -> bool:
        """While the config does not know us, or may lack something, any broker may help us to get there."""
        config = self.config
        return bool(self._known) or self.me.name not in config.brokers or config.are_peers(self.me.name, identity)

    def _locate(self) -> None:
        """Put every broker where it listens, as far as it has told us."""
        config, me = self.config, self.me.name
        brokers = {
            identity: self.peers[identity].located if identity in self.peers else broker
            for identity, broker in config.brokers.items()
        }
        states = dict(config.broker_states)
        if me in brokers:
            brokers[me] = placed(brokers[me], self.place)
            states[me] = self.state
        self.located = replace(config, brokers=brokers, broker_states=states)
        self._aimed = False

    # -- time and work ------------------------------------------------------------------------------------------

    def on_work(self, work: Work, slots: tuple[int, int] | None = None, errors: Sequence[Errors] = ()) -> None:
        """`slots`: of all workers, free and busy. `work` counts a worker of several services for each of them."""
        self.errors = errors
        self._slots = peers.Slots(*slots) if slots is not None else None
        former = self._work
        self._work = {name: peers.Work(*counts) for name, counts in list(work.items())[: peers.SERVICES_MAX]}
        if offers_more(self._work, former):
            # Until they hear of it, peers tell their clients that nobody offers this.
            self._beat_ns = 0

    def on_cut(self, identity: str, now_ns: int) -> None:
        """Our connection to a peer broke. That alone says little: it may have been the network."""
        if identity in self.peers:
            self.peers[identity].cut_ns = now_ns

    def on_tick(self, now_ns: int) -> None:
        """Once per heartbeat every peer hears from us, whether it answers or not."""
        alive = self.alive(now_ns)
        heard = frozenset(peer.identity for peer in alive)
        self.news += heard != self.heard
        self.heard = heard
        self._loss_ns = min((peer.lost_ns for peer in alive), default=NEVER_NS)
        due = now_ns >= self._beat_ns
        if due or not self._aimed:
            self.aims = {identity: peer.reach(now_ns) for identity, peer in self.peers.items()}
            self._aimed = True
        if not due:
            return
        self._beat_ns = now_ns + BEAT_NS
        config = (self.edits.version, self.edits.digest)
        beat = peers.Beat(*config, self.state, self._work, self._slots, self.place, self.dashboard)
        for identity in self.peers:
            self._send(identity, b"", beat)

    def alive(self, now_ns: int) -> list[Peer]:
        return [peer for peer in self.peers.values() if peer.alive(now_ns)]
