"""A worker's side of its connection: connect, be configured, ping, be ready, drain. Uses no socket and no clock.

OFFLINE     --link up-->     CONNECTING   sends CONNECT
CONNECTING  --CONFIG-->      GREETING     sends PING
GREETING    --PONG-->        READY        may get tasks; pings once per heartbeat
READY       --drain-->       DRAINING     sends DISCONNECT; answers what it holds
DRAINING    --DISCONNECT-->  GONE
any         --"connect again"--> CONNECTING
any         --silence of 3 heartbeats, link lost--> OFFLINE, and a new link after a back-off

A worker that knows several brokers, and can go from one to another (see `Homes`):

CONNECTING  --refused-->     ASKING       sends NEEDBROKER
ASKING      --answer, or none in time--> OFFLINE, and on to the next broker
READY       --another broker is better, or this one is disabled--> MOVING   as DRAINING
MOVING      --DISCONNECT, or the broker is lost--> OFFLINE, and on to that broker
OFFLINE     --no link in time--> OFFLINE, and on to the next broker
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from hashlib import sha256
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.session.header_cache import Given, HeaderCache
from famulus.core.session.homes import Homes
from famulus.core.session.open_stream import OpenStream
from famulus.core.session.worker_config import read_brokers, read_config
from famulus.errors import ProtocolError
from famulus.wire import headers, limits, reasons, stream

Frames = list[bytes]

#: How long an answer may take before a heartbeat is granted.
FIRST_HEARTBEAT_NS: Final = NS_PER_S
#: How often a worker asks its broker who could stand in for it.
ASK_AGAIN_NS: Final = 10 * NS_PER_S


class SessionState(Enum):
    OFFLINE = "offline"
    CONNECTING = "connecting"
    GREETING = "greeting"
    READY = "ready"
    ASKING = "asking"
    MOVING = "moving"
    DRAINING = "draining"
    GONE = "gone"


# Final, so that compiled code need not look them up each time.
_ANSWER_HEAD: Final = headers.ANSWER_HEAD
_CREDIT: Final = headers.CREDIT
#: States in which it may be given tasks.
_READY: Final = SessionState.READY
_MOVING: Final = SessionState.MOVING
_DRAINING: Final = SessionState.DRAINING


class WorkerSession:
    def __init__(
        self,
        identity: str,
        services: list[str],
        slots: int,
        heartbeat_ms: int | None,
        chance: Callable[[], float],
        homes: Homes | None = None,
        place: int = 0,
        token: str = "",
    ) -> None:
        """Without `homes` there is one broker, and the shell knows where.

        By its `token`, which nobody else has, a broker recognises it before it has noticed that its link was lost.
        """
        self._place = place
        self._token = token or None
        self.identity = identity
        self.services = services
        self.slots = slots
        self.state = SessionState.OFFLINE
        #: How often it became ready.
        self.begun = 0
        #: Why this broker will not take us, if it said so.
        self.refusal = ""
        self.outbox: list[Frames] = []
        #: When to close the link and make a new one, to `homes.next()`; the shell does so, and calls `on_linking` then
        #: and `on_link` when it is up.
        self.relink_at_ns = NEVER_NS
        self.config = b""
        self.version: int | None = None
        self.digest = ""
        self._wish_ms = heartbeat_ms
        self.heartbeat_ns = FIRST_HEARTBEAT_NS
        self._heard_ns = 0
        self._ping_at_ns = NEVER_NS
        self._tickets: dict[bytes, Given] = {}
        #: Tasks that nobody wants any more; whoever runs them takes them away.
        self.cancelled: list[Given] = []
        #: By their tickets.
        self._streams: dict[bytes, OpenStream] = {}
        #: Those whose clients want more parts, and the tasks of those that nobody can get any more.
        self.credited: list[OpenStream] = []
        self.lost_streams: list[Given] = []
        self._headers = HeaderCache()
        self._moves = homes is not None and not homes.stays
        self.homes = homes or Homes([""], chance)
        self._link_by_ns = NEVER_NS
        self._told_by_ns = self._ask_at_ns = NEVER_NS

    # -- the link -----------------------------------------------------------------------------------------------

    def on_linking(self, now_ns: int) -> None:
        """A new link is being made, and must be up in time if there are others to try."""
        self.relink_at_ns = NEVER_NS
        self.refusal = ""
        self._link_by_ns = min(now_ns + self.homes.link_within_ns, NEVER_NS)

    def on_link(self, now_ns: int) -> None:
        """A new connection: say who we are."""
        if self.state is SessionState.GONE:
            return
        self._heard_ns = now_ns
        self._connect(now_ns)

    def on_link_lost(self, now_ns: int, *, silent: bool = False) -> None:
        """The connection is gone, and with it our tickets: the broker has ended those tasks, or will.

        `silent`: we gave it up, since nothing came over it any more.
        """
        self._leave(now_ns, cut=not silent)

    def _leave(self, now_ns: int, *, cut: bool = False) -> None:
        """This broker is no longer ours; on to the next, which may be the same."""
        state = self.state
        if state is SessionState.GONE or (state is SessionState.OFFLINE and self.relink_at_ns < NEVER_NS):
            return
        self._forget_tasks()
        self.outbox.clear()
        self._ping_at_ns = self._link_by_ns = self._told_by_ns = NEVER_NS
        if state is SessionState.DRAINING:
            self.state = SessionState.GONE  # nobody is left to say goodbye to
            return
        self.state = SessionState.OFFLINE
        if state is SessionState.MOVING:
            self.homes.on_left()
            self.relink_at_ns = now_ns
        else:
            self.relink_at_ns = now_ns + self.homes.on_lost(cut=cut)

    # -- messages -----------------------------------------------------------------------------------------------

    def on_messages(self, now_ns: int, batch: list[Frames]) -> list[Given]:
        given: list[Given] = []
        self._heard_ns = now_ns
        tickets, cache = self._tickets, self._headers
        works = self._works()
        place = self._place
        for message in batch:
            if len(message) != 3:
                continue
            task = cache.given(message[0], message[1], message[2], place)
            if task is None:
                self._on_header(message[1], message[2], now_ns)
                works = self._works()
            elif works:
                tickets[message[0]] = task
                given.append(task)
        return given

    def _works(self) -> bool:
        state = self.state
        return state is _READY or state is _MOVING or state is _DRAINING

    def _on_header(self, header: bytes, body: bytes, now_ns: int) -> None:
        if header == _CREDIT:
            self._on_credit(body)
            return
        try:
            told = headers.read(header)
        except ProtocolError:
            return
        if isinstance(told, headers.ConfigResponse):
            self._on_config(told, body, now_ns)
        elif isinstance(told, headers.PongResponse):
            self._on_pong(told, now_ns)
        elif isinstance(told, headers.DisconnectResponse):
            if self.state in (SessionState.DRAINING, SessionState.MOVING):
                self._leave(now_ns)
        elif isinstance(told, headers.NeedBrokerResponse):
            self.homes.on_told(read_brokers(body))
            if self.state is SessionState.ASKING:
                self._leave(now_ns)
        elif isinstance(told, headers.CancelRequest):
            given = self._tickets.get(body)
            if given is not None:
                self.cancelled.append(given)
        elif isinstance(told, headers.CreditRequest):
            self._on_credit(body)
        elif isinstance(told, headers.PingRequest):
            # Somebody claims our name, and the broker asks whether we are there: any message will do.
            if self.state is SessionState.GREETING or self._works():
                self._ping(now_ns)
        elif isinstance(told, headers.ErrorResponse):
            self._on_error(told, now_ns)

    def _on_config(self, told: headers.ConfigResponse, body: bytes, now_ns: int) -> None:
        self.heartbeat_ns = told.heartbeat_ms * NS_PER_MS
        self.version = told.version
        self.digest = told.digest
        if not told.current:
            self.config = body
            config = read_config(body)
            if config is not None:
                self.homes.on_config(now_ns, config)
        if self.state is SessionState.CONNECTING:
            self.state = SessionState.GREETING
            self._ping(now_ns)
        elif self.state is SessionState.READY:
            # A different family also has different brokers to stand in for it.
            self._ask_for_brokers()

    def _on_pong(self, told: headers.PongResponse, now_ns: int) -> None:
        if self.state is SessionState.GREETING:
            self.state = SessionState.READY
            self.begun += 1
            self.refusal = ""
            self.homes.on_ready(now_ns)
            # Now, while there is a broker to ask: later it may be too late.
            self._ask_for_brokers()
            self._ask_at_ns = now_ns + ASK_AGAIN_NS
        if self.state is SessionState.READY and told.digest != self.digest:
            self._send("CHECKCONFIG", **self._who(), heartbeat_ms=self._wish_ms)

    def _on_error(self, error: headers.ErrorResponse, now_ns: int) -> None:
        code = reasons.code_of(error.reason)
        if code == reasons.NOT_CONNECTED:
            self._on_not_connected(now_ns)
            return
        self.refusal = error.reason
        if self.state is SessionState.CONNECTING or (self.state is SessionState.GREETING and code == reasons.DISABLED):
            # Not now: ask again later, over a new link; and another broker in the meantime.
            self._ask_or_leave(now_ns)
        elif self.state is SessionState.ASKING or code == reasons.CONFLICT:
            # We were silent for too long, and another worker has our name: the session is over.
            self._leave(now_ns)
        elif self.state is SessionState.READY and code in (reasons.DISABLED, reasons.NO_SERVICE) and not self.move():
            # It has no more tasks for us, and we know no other broker; it may.
            self._ask_for_brokers()

    def _on_not_connected(self, now_ns: int) -> None:
        self._forget_tasks()
        if self.state in (SessionState.DRAINING, SessionState.MOVING, SessionState.ASKING):
            self._leave(now_ns)
        elif self.state not in (SessionState.CONNECTING, SessionState.GONE):
            self._connect(now_ns)

    def _ask_or_leave(self, now_ns: int) -> None:
        if not self._moves:
            self._leave(now_ns)
            return
        self.state = SessionState.ASKING
        self._ping_at_ns = NEVER_NS
        self._told_by_ns = now_ns + FIRST_HEARTBEAT_NS
        self._ask_for_brokers()

    def _ask_for_brokers(self) -> None:
        if self._moves:
            self._send("NEEDBROKER", services=self.services, identity=self.identity, role="worker")

    def answer(self, given: Given, outcome: str, reason: str, body: bytes) -> bool:
        """Answer a task; False if its ticket is void because the broker was lost in the meantime."""
        ticket = given.ticket
        if ticket not in self._tickets:
            return False
        del self._tickets[ticket]
        if self._streams and (ended := self._streams.pop(ticket, None)) is not None and ended.has_begun:
            header = headers.write_task_response(given.message_id, given.parsed.service, outcome, reason, ended.sent)
        elif outcome == "OK":
            header = _ANSWER_HEAD + given.id_text + given.parsed.answer_tail
        else:
            header = headers.write_task_response(given.message_id, given.parsed.service, outcome, reason)
        self.outbox.append([ticket, header, body])
        return True

    def begin_stream(self, given: Given) -> OpenStream | None:
        """The function of this task gives parts. None if its ticket is void."""
        if given.ticket not in self._tickets:
            return None
        begun = self._streams.get(given.ticket)
        if begun is None:
            begun = self._streams[given.ticket] = OpenStream(given)
        begun.has_begun = True
        return begun

    def send_parts(self, given: Given, bodies: list[bytes]) -> None:
        """The next parts of a stream. They must be wanted; whether their ticket is void does not matter."""
        begun = self._streams.get(given.ticket)
        if begun is not None and begun.given is given:
            self.outbox += begun.number(bodies)

    def send_progress(self, given: Given, body: bytes) -> bool:
        """How far a task has got. False if it has ended, or its ticket is void."""
        if self._tickets.get(given.ticket) is not given:
            return False
        self.outbox.append([stream.write_place(given.ticket, stream.PROGRESS), headers.PART, body])
        return True

    def _on_credit(self, body: bytes) -> None:
        try:
            ticket, last = stream.read_credit(body)
        except ProtocolError:
            return
        given = self._tickets.get(ticket)
        if given is None or not given.parsed.credit:
            return
        wanted = self._streams.get(ticket)
        if wanted is None:
            # It came together with its task, which nobody has begun yet.
            wanted = self._streams[ticket] = OpenStream(given)
        if wanted.grant(last) and wanted.has_begun:
            self.credited.append(wanted)

    def _forget_tasks(self) -> None:
        """Their tickets are void: the broker has ended those tasks, or will."""
        self._tickets.clear()
        if self._streams:
            self.lost_streams += [each.given for each in self._streams.values()]
            self._streams.clear()
            self.credited.clear()

    def drain(self, now_ns: int) -> None:
        """Take no more tasks; `state` is GONE when the broker has let us go."""
        if self.state in (SessionState.OFFLINE, SessionState.ASKING):
            self.state = SessionState.GONE
            self.relink_at_ns = NEVER_NS
        elif self.state is SessionState.MOVING:
            self.state = SessionState.DRAINING
        elif self.state not in (SessionState.DRAINING, SessionState.GONE):
            # Even before its PONG: the broker may already count it among its workers.
            self.state = SessionState.DRAINING
            self._send("DISCONNECT")

    def move(self) -> bool:
        """Take no more tasks here, answer what we hold, and then go on to the next broker. False if we stay."""
        if self.state is not SessionState.READY or self.homes.alone:
            return False
        self.state = SessionState.MOVING
        self._send("DISCONNECT")
        return True

    # -- time ---------------------------------------------------------------------------------------------------

    def on_tick(self, now_ns: int) -> None:
        if self.state is SessionState.GONE:
            return
        if self.state is SessionState.OFFLINE:
            if self._link_by_ns <= now_ns:
                self._leave(now_ns)
        elif self._heard_ns + self._silence_ns <= now_ns or self._told_by_ns <= now_ns:
            self._leave(now_ns)
        elif self._ping_at_ns <= now_ns:
            if self.state is SessionState.CONNECTING:
                self._connect(now_ns)
            else:
                self._ping(now_ns)
                # Who can stand in changes: we should know a broker that starts or joins later before ours is lost.
                if self.state is SessionState.READY and self._ask_at_ns <= now_ns:
                    self._ask_for_brokers()
                    self._ask_at_ns = now_ns + ASK_AGAIN_NS

    @property
    def next_due_ns(self) -> int:
        if self.state is SessionState.GONE:
            return NEVER_NS
        if self.state is SessionState.OFFLINE:
            return min(self.relink_at_ns, self._link_by_ns)
        # In pairs: compiled code compares two numbers by itself, but calls Python for more.
        return min(min(self._ping_at_ns, self._told_by_ns), self._heard_ns + self._silence_ns)

    @property
    def _silence_ns(self) -> int:
        return self.heartbeat_ns * limits.HEARTBEATS_UNTIL_LOST

    # -- inside -------------------------------------------------------------------------------------------------

    def _connect(self, now_ns: int) -> None:
        self._forget_tasks()
        # A link that was given up may speak again ("connect again"): then it must not be cut in the middle of work.
        self.relink_at_ns = NEVER_NS
        self.state = SessionState.CONNECTING
        # What was granted by another broker, or by this one in a former session, does not apply yet.
        self.heartbeat_ns = FIRST_HEARTBEAT_NS
        self._send("CONNECT", **self._who(), slots=self.slots, heartbeat_ms=self._wish_ms, worker_token=self._token)
        self._ping_at_ns = now_ns + self.heartbeat_ns

    def _who(self) -> dict[str, object]:
        return {
            "identity": self.identity,
            "services": self.services,
            "version": self.version,
            "digest": self.digest or None,
            "body_digest": sha256(self.config).hexdigest() if self.config else None,
        }

    def _ping(self, now_ns: int) -> None:
        self._send("PING")
        self._ping_at_ns = now_ns + self.heartbeat_ns

    def _send(self, request: str, **fields: object) -> None:
        self.outbox.append([b"", headers.write(request, "REQUEST", **fields), b""])
