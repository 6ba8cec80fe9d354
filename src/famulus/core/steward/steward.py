"""The steward: holds the edits of the network's config, keeps them in step with its peers, and knows who they are.

The shell around it reads sockets, calls `on_...`, then writes `take_unlogged()` to the disk and fsyncs, and only then
sends what has gathered in `to_peers`, `replies` and `to_publish`: nobody may hear of an edit that a crash could still
take back. It comes back at `next_due_ns` at the latest. Time comes in twice: `now_ns` on a clock that never jumps, for
all waiting, and `now_ms` on the wall, for the instants in edits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from famulus.core.clock import NEVER_NS
from famulus.core.config import sync
from famulus.core.config.clock import HybridClock
from famulus.core.config.draft import Draft, make
from famulus.core.config.edit import SignedEdit, sign
from famulus.core.config.edit_set import EditSet, Verify
from famulus.core.config.effective import Effective, effective
from famulus.core.config.schema import State
from famulus.core.steward.peer import BEAT_NS, Peer
from famulus.core.steward.post import Frames, Identity, Post
from famulus.errors import ProtocolError
from famulus.wire import peers, reasons


class Steward:
    def __init__(self, me: Identity, edits: EditSet, verify: Verify, make_nonce: Callable[[], str]) -> None:
        self.me = me
        self.edits = edits
        self.post = Post(me, verify)
        self.clock = HybridClock()
        self.peers: dict[str, Peer] = {}
        #: Over our own connection to that peer.
        self.to_peers: list[tuple[str, Frames]] = []
        #: To whoever wrote to us by that connection.
        self.replies: list[tuple[bytes, Frames]] = []
        self.to_publish: list[Frames] = []
        #: Letters that were not genuine, or made no sense.
        self.refused = 0
        #: Edits that became part of the config since somebody looked, for the journal.
        self.taken: list[SignedEdit] = []
        #: Grows whenever the config is another one.
        self.changes = 0
        self._make_nonce = make_nonce
        self._unlogged: list[SignedEdit] = []
        self._work: dict[str, peers.Work] = {}
        #: Who is heard, and how often that changed.
        self.heard: frozenset[str] = frozenset()
        self.meetings = 0
        self._beat_ns = self._loss_ns = 0
        self._now_ms = me.boot
        for signed in edits:
            self.clock.observe(signed.edit.hlc, me.boot)
        self.config: Effective = effective(edits)
        self._meet_peers()

    @property
    def state(self) -> State:
        return self.config.broker_states.get(self.me.name, "joining")

    @property
    def next_due_ns(self) -> int:
        return min(self._beat_ns, self._loss_ns)

    def take_unlogged(self) -> list[SignedEdit]:
        unlogged, self._unlogged = self._unlogged, []
        return unlogged

    # -- letters come -------------------------------------------------------------------------------------------

    def on_letter(self, frames: Frames, route: bytes, now_ns: int, now_ms: int) -> None:
        """A letter, over the connection `route`, or over our own one or the publications (then it is empty)."""
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
            peer.hear(content, now_ns)
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
            self.replies.append((route, frames))
        else:
            self.to_peers.append((identity, frames))

    def _key_of(self, identity: str) -> str:
        broker = self.config.brokers.get(identity)
        return broker.public_key if broker is not None else ""

    # -- edits --------------------------------------------------------------------------------------------------

    def add(self, edits: Sequence[SignedEdit], *, logged: bool = False) -> tuple[str, ...]:
        """Take edits, from wherever; the reasons why some were refused."""
        added = self.edits.add(edits)
        if added.new:
            for signed in added.new:
                self.clock.observe(signed.edit.hlc, self._now_ms)
            if not logged:
                self._unlogged += added.new
            self.taken += added.new
            self._change(added.new)
        return tuple(refusal.reason for refusal in added.refused)

    def edit(self, drafts: Sequence[Draft], author: str, now_ms: int) -> list[SignedEdit]:
        """Edits of these drafts, accepted and signed by us, but not yet part of the config: see `add`."""
        me = self.me
        grant = self.edits.grant_of(me.name, me.public_key)
        if not grant:
            raise ProtocolError(reasons.DISABLED, "this broker is not known to the network, or no longer")
        return [
            sign(
                make(draft, me.network, author, me.name, grant, self.clock.next(now_ms), self._make_nonce()),
                me.sign,
            )
            for draft in drafts
        ]

    def _change(self, new: Sequence[SignedEdit]) -> None:
        self.config = effective(self.edits)
        self.changes += 1
        self._meet_peers()
        for message in sync.news(self.edits, new):
            self.to_publish.append(self.post.write(peers.Config(sync.write(message))))

    def _meet_peers(self) -> None:
        """Peers are those whom the config names; one that moved is the same peer at another place."""
        known = {}
        for identity, broker in self.config.brokers.items():
            if identity != self.me.name and self._talks_to(identity):
                known[identity] = self.peers.get(identity) or Peer(identity, broker)
                known[identity].broker = broker
        self.peers = known
        self.post.forget(set(known))

    def _talks_to(self, identity: str) -> bool:
        """While the config does not know us, everybody may help us to get there."""
        config = self.config
        return self.me.name not in config.brokers or config.are_peers(self.me.name, identity)

    # -- time and work ------------------------------------------------------------------------------------------

    def on_work(self, work: dict[str, tuple[int, int, int]]) -> None:
        self._work = {name: peers.Work(*counts) for name, counts in list(work.items())[: peers.SERVICES_MAX]}

    def on_cut(self, identity: str, now_ns: int) -> None:
        """Our connection to a peer broke. That alone says little: it may have been the network."""
        if identity in self.peers:
            self.peers[identity].cut_ns = now_ns

    def on_tick(self, now_ns: int) -> None:
        """Once a heartbeat every peer hears from us, whether it answers or not."""
        self._see_who_is_there(now_ns)
        if now_ns < self._beat_ns:
            return
        self._beat_ns = now_ns + BEAT_NS
        beat = peers.Beat(self.edits.version, self.edits.digest, self.state, self._work)
        for identity in self.peers:
            self._send(identity, b"", beat)

    def _see_who_is_there(self, now_ns: int) -> None:
        heard = frozenset(peer.identity for peer in self.alive(now_ns))
        if heard != self.heard:
            self.heard = heard
            self.meetings += 1
        self._loss_ns = min((self.peers[identity].lost_ns for identity in heard), default=NEVER_NS)

    def alive(self, now_ns: int) -> list[Peer]:
        return [peer for peer in self.peers.values() if peer.alive(now_ns)]
