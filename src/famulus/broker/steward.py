"""The steward's process: letters, publications, requests of admins; the disk before the answer. Decides nothing."""

from __future__ import annotations

import logging
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from time import monotonic_ns
from typing import Any, NamedTuple

import msgspec

from famulus.broker import keys, passwords
from famulus.broker.lifeline import Lifeline, serve
from famulus.broker.membership import Membership, nonce
from famulus.broker.peer_links import PeerLinks
from famulus.broker.settings import Settings
from famulus.core import telling
from famulus.core.access import ADMIN, CONFIG_PUB, FRONTEND, JOIN, MANAGE, PEER, Refusal
from famulus.core.clock import NS_PER_S
from famulus.core.config.edit import SignedEdit
from famulus.core.config.schema import Broker
from famulus.core.dispatch.strangers import host_of, readable
from famulus.core.rights import Rights
from famulus.core.routing.book import Book
from famulus.core.steward.books import book_of, offers_of
from famulus.core.steward.commands import HTTP_PORT, Commands
from famulus.core.steward.facts import StewardFacts
from famulus.core.steward.gate import Gate, join_keys
from famulus.core.steward.guests import Guests
from famulus.core.steward.invitations import day_of, valid_secrets
from famulus.core.steward.lockouts import Lockouts, frontend_source
from famulus.core.steward.notes import Notes
from famulus.core.steward.post import Identity, Letters, next_boot
from famulus.core.steward.principals import admission, signer_key
from famulus.core.steward.steward import Steward
from famulus.errors import SettingsError
from famulus.journal.records import BatchWriter
from famulus.net import sockets
from famulus.net.listener import Listener, ListenerBounds
from famulus.net.pump import recv_many, send_some
from famulus.net.sealing import KeyAuthenticator
from famulus.net.waiting import Waiting
from famulus.wire import headers, inner, limits, peers, reasons, status
from famulus.wire.curve import CurveKey

log = logging.getLogger("famulus.broker")

#: From one socket in one pass. A letter may bring a thousand edits, and checking a password is slow on purpose; between
#: two passes our supervisor and our peers hear that we are alive.
LETTERS_MAX = 4
REQUESTS_MAX = 4
REPORT_NS = NS_PER_S // 5
#: Of letters that are not complete yet: anybody can start one.
LETTERS_BYTES_MAX = 64 * 1024 * 1024
#: What one peer, or one subscriber, has not read: a few letters; the next heartbeat makes up for a lost one.
UNREAD_BYTES_MAX = 4 * peers.LETTER_BYTES_MAX
UNREAD_ALL_BYTES_MAX = 16 * peers.LETTER_BYTES_MAX
PATIENCE_NS = 10 * NS_PER_S
TICK_NS = 1 * NS_PER_S
#: A subscriber only says what it wants to hear, and nothing else.
SUBSCRIPTION_BYTES_MAX = 1024
#: Routers get the book when it changes, and also this often: publications may get lost.
BOOK_NS = 1 * NS_PER_S
HELLO_NS = 1 * NS_PER_S
HELLO_AGAIN_NS = NS_PER_S // 50
SNAPSHOT_NS = 1 * NS_PER_S
#: How many of the edits that do not count are logged.
VOID_LOGGED_MAX = 50
#: The herald gets the whole config when it changes, and also this often: it may be a new herald.
CONFIG_AGAIN_NS = 5 * NS_PER_S


class Asker(NamedTuple):
    """Who wants something of us, for the journal."""

    port: bytes
    host: bytes
    #: Empty for one without a key.
    principal: bytes = b""


class Stewarding:
    def __init__(self, settings: Settings, ipc: str, lifeline: Lifeline) -> None:
        self._lifeline = lifeline
        self._settings = settings
        self._member = Membership(Path(settings.folder))
        for damage in self._member.damage:
            log.warning("the edit log was damaged (%s); what is missing is pulled from the peers", damage)
        key = self._member.key
        me = Identity(self._member.network.network_id, self._member.identity, key.public, key.sign, self._next_boot())
        self._core = Steward(
            me, self._member.edits, keys.verify, nonce, _place(settings), self._member.known, settings.dashboard
        )
        if self._core.behind:
            asked = ", ".join(self._core.peers) or "nobody that it knows of"
            log.warning("the config of this broker is lost: it takes no work until it has it again from %s", asked)
        self._gate = Gate(self._core, self._member.secret(), self._member.network.root_public)
        self._notes = Notes()
        self._void_told: set[str] = set()
        self._context = context = sockets.new_context()
        self._admins, admins_at = self._open_for_admins(ipc)
        self._lockouts = Lockouts(self._member.known_admins)
        self._commands = Commands(self._core, passwords, admins_at, self._lockouts)
        secret = self._member.secret()
        as_member = [CurveKey(join_keys(secret)[1])] if secret else []
        self._authenticator = KeyAuthenticator(key.curve_key(), *as_member, plain_from_afar=settings.plain_on_purpose)
        self._peers = Listener(b"ROUTER", _bounds(2 * peers.LETTER_BYTES_MAX), authenticator=self._authenticator)
        self._peers.bind(settings.host, settings.peer_port, "peer_port")
        # Whoever joins has nothing to hear there before it is a broker.
        self._subscribers = KeyAuthenticator(key.curve_key(), plain_from_afar=settings.plain_on_purpose)
        self._publications = Listener(b"PUB", _bounds(SUBSCRIPTION_BYTES_MAX), authenticator=self._subscribers)
        self._publications.bind(settings.host, settings.config_pub_port, "config_pub_port")
        self._listeners = {PEER: self._peers, ADMIN: self._admins, CONFIG_PUB: self._publications}
        self._authenticator.plain_name = self._subscribers.plain_name = "plain"
        self._guests = ((self._peers, self._authenticator, Guests()), (self._publications, self._subscribers, Guests()))
        self._dispatcher = sockets.inside_dealer(context, b"steward")
        self._dispatcher.connect(f"ipc://{ipc}/steward")
        self._books = sockets.inside_pub_bound(context, f"ipc://{ipc}/book")
        self._announcements = sockets.inside_pub(context, f"ipc://{ipc}/announcements")
        self._herald = sockets.to_herald(context, ipc, settings.http)
        self._snapshot_ns = self._config_ns = 0
        self._facts = StewardFacts(self._core)
        # For the present life of the dispatcher, whichever it is: the scribe knows.
        self._pen = BatchWriter("steward", "")
        self._journal = sockets.to_scribe(context, ipc, settings.journal)
        self._waiting = Waiting()
        self._links = PeerLinks(context, self._waiting, self._authenticator.own)
        for source in (self._dispatcher, lifeline.fd):
            self._waiting.watch(source)
        for listener in self._listeners.values():
            self._waiting.watch(listener.fd)
        # Later than any epoch of a former steward, so that whoever heard of those follows us.
        self._epoch = me.boot
        #: The state of the core that was last told or followed.
        self._changes = self._news = -1
        self._aims: dict[str, Broker] | None = None
        self._behind = self._core.behind
        #: Who may connect, and that as it is told.
        self._admission = admission(self._core.config, me.name, me.boot)
        self._admitted_on = day_of(me.boot)
        self._principals = b""
        self._ready = False
        self._book: Book | None = None
        self._book_ns = self._hello_ns = self._report_ns = self._listeners_ns = 0
        #: What could not be written to the disk yet.
        self._unwritten: list[SignedEdit] = []

    def _open_for_admins(self, ipc: str) -> tuple[Listener, str]:
        """Where nobody else can listen in: for our own HTTP port, and on loopback if clients come from elsewhere.

        Also if everybody needs a key: whoever is to make the first pass has none yet.
        """
        settings = self._settings
        admins = Listener(b"ROUTER", _bounds(2 * limits.BODY_BYTES_MAX))
        admins.bind_path(f"{ipc}/admins")
        family = self._core.config.family(settings.family)
        if settings.is_local and family.keys != "all":
            return admins, f"{settings.host}:{settings.frontend_port}"
        port = settings.admin_port
        try:
            port = admins.bind("127.0.0.1", port, "admin_port")
            log.info("admins are heard at 127.0.0.1:%d", port)
        except SettingsError as error:
            log.warning("no admin is heard: %s", error)
        return admins, f"127.0.0.1:{port}"

    def _next_boot(self) -> int:
        folder = self._member.folder
        boot = next_boot(folder.read_boot(), int(time.time() * 1000))
        try:
            folder.write_boot(boot)
        except SettingsError as error:
            log.warning("should the clock be set back before the next start, peers may not hear us then: %s", error)
        try:
            folder.note_plain(self._settings.plain_on_purpose)
        except SettingsError as error:
            log.warning("famulus doctor cannot know whether this broker is plain on purpose: %s", error)
        return boot

    def run(self) -> None:
        while True:
            due_ns = min(self._core.next_due_ns, self._notes.next_due_ns, self._listeners_ns)
            due_ns = min(due_ns, self._peers.due_ns, self._publications.due_ns)
            self._waiting.wait(min(due_ns, self._book_ns, self._hello_ns))
            busy = True
            # Sending may swallow the readiness of a zmq descriptor: so we check all of them until none has anything.
            while busy:
                if self._lifeline.commands() is None:
                    return
                busy = self._pass()
                self._report()

    def _report(self) -> None:
        """Also while others flood us: a process that falls silent is killed."""
        now_ns, core = monotonic_ns(), self._core
        if now_ns >= self._report_ns:
            self._report_ns = now_ns + REPORT_NS
            self._lifeline.report(alive=True, version=core.edits.version, digest=core.edits.digest, state=core.state)

    def _pass(self) -> bool:
        now_ns, now_ms = monotonic_ns(), int(time.time() * 1000)
        busy = self._read_letters(now_ns, now_ms)
        busy = self._read_cuts(now_ns) or busy
        busy = self._read_dispatcher(now_ns, now_ms) or busy
        busy = self._read_admins(now_ns, now_ms) or busy
        self._core.on_tick(now_ns)
        self._tick_listeners(now_ns)
        for line in self._notes.due(now_ns):
            log.info("%s", line)
        is_logged = self._write_log()
        self._follow_config(now_ns)
        letters = self._core.take_letters()
        # Nobody may hear of an edit that a crash could still undo, and all letters tell of our edits.
        if is_logged:
            self._send(letters)
        if now_ns >= self._hello_ns:
            self._greet(now_ns)
        if self._herald is not None and now_ns >= self._snapshot_ns:
            self._tell_herald(self._herald, now_ns)
        self._tell_scribe(now_ns)
        return busy

    def _tick_listeners(self, now_ns: int) -> None:
        self._peers.let_in(now_ns)
        self._publications.let_in(now_ns)
        if now_ns >= self._listeners_ns:
            self._listeners_ns = now_ns + TICK_NS
            for listener, authenticator, guests in self._guests:
                plain = [b""] if authenticator.plain_ok else []
                for peer in guests.look(listener.come, listener.gone, {*authenticator.known, *plain}):
                    listener.cut(peer)
            for port, listener in self._listeners.items():
                listener.on_tick(now_ns)
                listener.gone.clear()
                listener.come.clear()
                self._facts.access.turn_away(port, listener.turned_away, now_ns)

    # -- in -----------------------------------------------------------------------------------------------------

    def _read_letters(self, now_ns: int, now_ms: int) -> bool:
        busy = False
        for _ in range(LETTERS_MAX):
            # One at a time, each from the next in line: a peer that sends many does not keep others from being heard.
            for route, *frames in self._peers.recv(1):
                busy = True
                if not self._gate.on_letter(frames, route, now_ms):
                    self._core.on_letter(frames, route, now_ns, now_ms)
        for route in self._gate.refused:
            self._refuse(JOIN, reasons.NOT_ALLOWED.encode(), Asker(PEER, host_of(route)), now_ns)
        self._gate.refused.clear()
        busy = busy or self._peers.more
        self._publications.recv(LETTERS_MAX)  # subscriptions: everybody gets everything anyway
        for frames in self._links.read(LETTERS_MAX):
            busy = True
            self._core.on_letter(frames, b"", now_ns, now_ms)
        return busy

    def _read_cuts(self, now_ns: int) -> bool:
        busy = False
        for identity, is_cut in self._links.changes():
            busy = True
            if is_cut:
                self._core.on_cut(identity, now_ns)
        return busy

    def _read_dispatcher(self, now_ns: int, now_ms: int) -> bool:
        batch = recv_many(self._dispatcher, REQUESTS_MAX)
        for message in batch:
            if len(message) == 3 and message[1] == inner.WORK:
                self._core.on_work(*inner.read_work(message[2]))
            elif len(message) == 5:
                number, principal, host, header, body = message
                # A name is what only a connection with keys has.
                private = bool(principal) or self._settings.is_private
                source = frontend_source(principal.decode(), host.decode())
                asker = Asker(FRONTEND, host, principal)
                reply = self._answer(header, body, now_ns, now_ms, source, asker, private=private)
                send_some(self._dispatcher, [[number, *reply]])
        return bool(batch)

    def _read_admins(self, now_ns: int, now_ms: int) -> bool:
        batch = self._admins.recv(REQUESTS_MAX)
        for message in batch:
            if len(message) == 4:
                route, envelope, header, body = message
                # Only our own HTTP port knows the path; all others come over TCP.
                source = HTTP_PORT if readable(route) == "this machine" else "admin port"
                asker = Asker(ADMIN, host_of(route))
                reply = self._answer(header, body, now_ns, now_ms, source, asker, private=True)
                self._admins.send([[route, envelope, *reply]])
        return self._admins.more

    def _refuse(self, wanted: bytes, why: bytes, asker: Asker, now_ns: int) -> None:
        self._facts.access.refuse(Refusal(asker.port, wanted, why, asker.principal, address=asker.host), now_ns)

    def _answer(
        self,
        header: bytes,
        body: bytes,
        now_ns: int,
        now_ms: int,
        source: str,
        asker: Asker,
        *,
        private: bool,
    ) -> list[bytes]:
        answer = self._commands.run(header, body, now_ns, now_ms, private=private, source=source)
        reply = [answer.header, answer.body]
        if answer.edits:
            try:
                self._member.write(answer.edits)
            except SettingsError as error:
                log.error("an edit could not be written: %s", error)
                reason = reasons.reason(reasons.OVERLOAD, f"it could not be written to the disk: {error}")
                reply = [headers.write("MANAGE", "RESPONSE", outcome="REJECTED", reason=reason), b"{}"]
            else:
                self._core.add(answer.edits, logged=True)
        if not answer.stranger:
            self._remember_admins()
        if answer.not_heard:
            self._refuse(MANAGE, answer.not_heard, asker, now_ns)
        if answer.note:
            for line in self._notes.take(answer.note, now_ns, stranger=answer.stranger):
                log.info("%s", line)
        if answer.forgive is not None:
            send_some(self._dispatcher, [[b"", inner.FORGIVE, answer.forgive.encode()]])
        return reply

    # -- out ----------------------------------------------------------------------------------------------------

    def _write_log(self) -> bool:
        """Before anything is sent. False while the disk takes nothing: we keep trying."""
        full = bool(self._unwritten)
        self._unwritten += self._core.take_unlogged()
        if not self._unwritten:
            return True
        try:
            self._member.write(self._unwritten)
        except SettingsError as error:
            if not full:
                log.error("edits of peers cannot be written, so nobody hears from us until they can: %s", error)
            return False
        self._unwritten.clear()
        if full:
            log.info("the disk takes edits again")
        return True

    def _send(self, letters: Letters) -> None:
        for identity, frames in letters.to_peers:
            self._links.send(identity, frames)
        self._peers.send([[route, *frames] for route, frames in letters.replies])  # a peer that is gone will ask again
        for frames in letters.to_publish:
            self._publications.publish(frames)

    def _tell_scribe(self, now_ns: int) -> None:
        rows = self._facts.look(now_ns)
        if self._journal is not None and rows:
            for row in rows:
                self._pen.note(row)
            send_some(self._journal, [[self._pen.write(time.time_ns() // 1000, monotonic_ns())]])

    def _greet(self, now_ns: int) -> None:
        """Once the dispatcher knows us, admins can ask; before that, we should not report ourselves ready."""
        if not send_some(self._dispatcher, [[b"", b"", b"%d" % self._core.me.boot]]):
            self._hello_ns = now_ns + HELLO_AGAIN_NS
            return
        self._hello_ns = now_ns + HELLO_NS
        if not self._ready:
            self._ready = True
            self._lifeline.report(ready=True)

    def _tell_herald(self, herald: sockets.Socket, now_ns: int) -> None:
        """Whether it is there or not: what it does not take is lost."""
        self._snapshot_ns = now_ns + SNAPSHOT_NS
        send_some(herald, [[status.write(telling.of_steward(self._core, self._facts.access, now_ns))]])
        if now_ns >= self._config_ns and send_some(herald, [[status.write(telling.of_config(self._core))]]):
            self._config_ns = now_ns + CONFIG_AGAIN_NS

    def _follow_config(self, now_ns: int) -> None:
        core = self._core
        if self._news != core.news:
            # Those who choose among peers, and those who watch, should hear this at once.
            self._news = core.news
            self._book_ns = self._snapshot_ns = 0
        if self._aims != core.aims:
            self._aims = core.aims
            self._follow_peers(core)
            self._book_ns = 0
        if self._changes != core.changes:
            self._changes = core.changes
            self._epoch += 1
            self._admit(core)
            self._follow_peers(core)
            self._log_config()
            self._remember_brokers()
            self._book_ns = self._config_ns = 0
            send_some(self._announcements, [inner.write_announcement(inner.CONFIG, self._epoch, b"")])
        if now_ns >= self._book_ns:
            self._book_ns = now_ns + BOOK_NS
            offers = inner.write_peers(core.me.name, offers_of(core.located, core.me.name, core.alive(now_ns)))
            lists = core.config.error_workers(core.me.name).values()
            ignored = inner.write_names(sorted({name for names in lists for name in names}))
            drained = inner.write_names(core.config.drained_workers(core.me.name))
            told = ((inner.PEERS, offers), (inner.IGNORE, ignored), (inner.DRAIN, drained))
            send_some(self._dispatcher, [[b"", *each] for each in told])
            rights = self._tell_principals(core)
            book = book_of(core.located, core.me.name, core.alive(now_ns), self._epoch, rights)
            if book is None and self._book is not None:
                # We were removed from the network: what we were last told still applies, but we take nothing new.
                book = replace(self._book, epoch=self._epoch, state="disabled", others=())
            if book is not None:
                self._book = book
                send_some(self._books, [[msgspec.msgpack.encode(book)]])

    def _tell_principals(self, core: Steward) -> dict[str, Rights] | None:
        """The dispatcher hears who may connect; returns what each may do, for routers.

        If we were removed from the network, what it last heard still applies.
        """
        now_ms = int(time.time() * 1000)
        if 0 < self._admission.next_expiry_ms <= now_ms or self._admitted_on != day_of(now_ms):
            self._admit(core)
        send_some(self._dispatcher, [[b"", inner.PRINCIPALS, self._principals]])
        return self._admission.rights

    def _admit(self, core: Steward) -> None:
        now_ms = int(time.time() * 1000)
        self._admission = found = admission(core.config, core.me.name, now_ms)
        self._admitted_on = day_of(now_ms)
        joiners = self._joiners(core, now_ms)
        if core.me.name in core.config.brokers:
            self._principals = inner.write_principals(found.told(self._epoch))
            brokers = {key: name for key, name in found.keys.items() if name.startswith(inner.BROKER)}
            self._let_in(joiners, brokers, found.plain)
        elif core.behind:
            # It takes no work from anybody, but says so.
            self._principals = inner.write_principals(inner.Principals({}, {}, True, {}))
            brokers = {key: inner.BROKER + name for name, key in self._member.known_keys.items()}
            self._let_in(joiners, brokers, True)

    def _let_in(self, joiners: dict[bytes, str], brokers: dict[bytes, str], plain: bool) -> None:
        self._authenticator.known, self._subscribers.known = joiners | brokers, brokers
        self._authenticator.plain_ok = self._subscribers.plain_ok = plain

    def _joiners(self, core: Steward, now_ms: int) -> dict[bytes, str]:
        """The keys of those who may connect to ask whether they may join: see `join_keys`."""
        keys = [CurveKey(join_keys(each)[0]).public for each in valid_secrets(self._member.secret(), now_ms)]
        keys += [key for each in core.config.trusted_keys if (key := signer_key(each))]
        return dict.fromkeys(keys, "joining")

    def _follow_peers(self, core: Steward) -> None:
        keys = self._admission.brokers or self._member.known_keys
        self._links.follow(core.aims, keys, core.located.brokers.get(core.me.name))

    def _log_config(self) -> None:
        config = self._core.config
        log.info("config version %d, digest %s, state %s", config.version, config.digest[:12], self._core.state)
        for conflict in config.conflicts:
            log.warning("%s has %d heads: an admin has to choose", conflict.key, len(conflict.heads))
        self._log_void()

    def _log_void(self) -> None:
        """Each once, and no more of them than anybody would read: a broker that makes them can make many."""
        edits = self._core.edits
        fresh = [signed for each in edits.void if each not in self._void_told and (signed := edits.get(each))]
        for signed in fresh[: max(0, VOID_LOGGED_MAX - len(self._void_told))]:
            edit, why = signed.edit, edits.void[signed.id]
            log.warning("%s: edit %s at broker %r does not count: %s", edit.key, signed.id[:8], edit.broker, why)
            self._void_told.add(signed.id)
            if len(self._void_told) == VOID_LOGGED_MAX:
                log.warning("more edits that do not count are not logged; famulus config show lists them")

    def _remember_brokers(self) -> None:
        """For a start without the log: whom to ask for what was in it."""
        core = self._core
        if self._behind and not core.behind:
            log.info("caught up with the peers: all that they have is here again")
        self._behind = core.behind
        if not core.behind and core.me.name in core.config.brokers:
            try:
                self._member.remember(core.config.brokers, self._admission.brokers)
            except SettingsError as error:
                log.warning("should the edit log be lost, nobody will know whom to ask for it: %s", error)

    def _remember_admins(self) -> None:
        try:
            self._member.remember_admins(self._lockouts.good)
        except SettingsError as error:
            log.warning("who guesses passwords after the next start may keep an admin out: %s", error)

    def close(self) -> None:
        self._member.close()
        for listener in self._listeners.values():
            listener.close()
        self._context.destroy(linger=0)


def _place(settings: Settings) -> peers.Place:
    """Where we listen. A broker that listens on all interfaces is reached by whatever name the config gives it."""
    host = settings.advertised_host if settings.host == settings.advertised_host else ""
    ports = (settings.frontend_port, settings.backend_port, settings.config_pub_port, settings.peer_port)
    return peers.Place(host, *ports)


def _bounds(message_bytes_max: int) -> ListenerBounds:
    return ListenerBounds(message_bytes_max, LETTERS_BYTES_MAX, UNREAD_BYTES_MAX, UNREAD_ALL_BYTES_MAX, PATIENCE_NS)


def _start(settings: Settings, facts: dict[str, Any], lifeline: Lifeline) -> None:
    with closing(Stewarding(settings, facts["ipc"], lifeline)) as loop:
        loop.run()


if __name__ == "__main__":
    serve(_start)
