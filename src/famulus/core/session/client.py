"""A client's side of its connection: which tasks are open, and how each one ends. Uses no socket and no clock.

A task is *unsent* until the connection has taken it; until then it provably did not run, and a client that gives up on
it says REJECTED. Once sent, it ends with the broker's answer; if the broker is lost, or says nothing until well after
the deadline, it is UNKNOWN.

A task that its broker refused to take provably did not run, so it can be sent to another one, or again to the same one
a moment later: see `retries`. And a task that should run at least once is sent again when its broker is lost, under the
same message_id; from then on nobody can prove that it did not run. One that may run twice is sent again also when its
worker was lost, or whatever else made it UNKNOWN. It may have a second attempt beside the first, a *hedge*: see
`hedges`.

A task that is answered with a stream may be sent again only until its first part has come; after that, a lost broker
means UNKNOWN.

The connection over which a task was sent is its *leg*: legs are counted from 1, and one may end while another goes on.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Set
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.delivery import Outcome
from famulus.core.session.done import Done, Frames, Repeatable, doubt, may_have_run
from famulus.core.session.hedges import Hedges
from famulus.core.session.kept_bodies import KeptBodies
from famulus.core.session.retries import Retries
from famulus.core.session.retry import Idempotent
from famulus.core.session.stream import Streamed
from famulus.core.session.task_headers import TaskHeaders
from famulus.core.session.task_kind import TaskKind
from famulus.core.timers import Timers
from famulus.wire import headers, reasons, stream

__all__ = ["GRACE_NS", "ClientSession", "Done", "Repeatable", "Streamed", "Wish"]

#: How long after its deadline the broker may still answer a task before its silence means that it is lost.
GRACE_NS: Final = 1 * NS_PER_S

#: What `submit` takes: the token, the kind, the body, the message_id and the place.
Wish = tuple[object, TaskKind, bytes, str, int]

#: The beginning and the end of a header that says OK and nothing else. Most do, and need not be read any further.
_OK_HEAD: Final = b'{"request":"TASK","type":"RESPONSE",'
_OK_TAIL: Final = b',"outcome":"OK"}'


class ClientSession:
    def __init__(
        self,
        first_number: int = 0,
        new_id: Callable[[], str] | None = None,
        token: str = "",
        chance: Callable[[], float] = lambda: 0.5,
    ) -> None:
        """`new_id` makes ids for tasks that should run at least once and have none.

        By the `token`, which is a secret, brokers tell this client's ids from those of others.
        """
        self._number = first_number
        self._new_id = new_id
        self._pending: dict[bytes, Done] = {}
        self._unsent: list[Done] = []
        self._timers: Timers[Done] = Timers()
        self._headers = TaskHeaders(token)
        self._bodies = KeptBodies()
        #: Answers to nothing that is open: late ones, or from a broker's former life.
        self.late = 0
        #: What is sent now goes over this one.
        self.leg = 1
        # Whether there may be tasks whose message is kept after it was sent. Only then must each of them be checked.
        self._keeps = False
        # Likewise, tasks that wait for their time: whenever they are sent, their header must say how long that is.
        self._delays = False
        # See `on_brokers`.
        self._elsewhere = False
        self._tried = self._address = ""
        self._question = b""
        #: The body of an answer to `question`; whoever asked takes it away.
        self.told = b""
        #: Tasks that the broker would not take: `send_again` or `pass_on` must follow.
        self.refused: list[Done] = []
        #: The broker at the end of this leg reads no more: whoever has the connection closes it, and sets this to 0.
        self.left = 0
        #: What its broker has to be told, by the leg that it was sent over: the envelopes of cancelled tasks.
        self.cancels: dict[int, list[bytes]] = {}
        #: Streams with news for their readers; whoever has the connection takes them away.
        self.fed: list[Streamed] = []
        #: Streams of which their brokers have to be told that more is wanted, by the leg that they were sent over.
        self.wanting: dict[int, list[Streamed]] = {}
        # Whether there was ever a stream. Only then must each answer be checked for being the end of one.
        self._streams = False
        #: Those that rest before they are sent again.
        self._retries = Retries(chance)
        self._hedges = Hedges(self._pending, self._unsent, self._timers, self._bodies, self.cancels)
        self._was_lost = False

    def __len__(self) -> int:
        """How many tasks are open."""
        return len(self._pending)

    @property
    def unsent(self) -> int:
        return len(self._unsent)

    def keep(self, size: int) -> bool:
        """Ask this before submitting a task that should run at least once: is there room to keep its body?"""
        return self._bodies.has_room(size)

    def submit(
        self, now_ns: int, token: object, kind: TaskKind, body: bytes, message_id: str = "", place: int = 0
    ) -> None:
        self._number += 1
        envelope = self._number.to_bytes(8, "big")
        deadline_ns = now_ns + (kind.timeout_ms + kind.delay_ms) * NS_PER_MS
        if kind.is_named and not message_id and self._new_id is not None:
            message_id = self._new_id()
        header = self._headers.of(kind, message_id)
        if kind.credit:
            self._streams = True
            pending: Done = Streamed(token, kind, message_id, envelope, header, body, now_ns, deadline_ns)
        elif kind.at_least_once:
            repeatable = Repeatable(token, kind, message_id, envelope, header, body, now_ns, deadline_ns)
            retry = kind.retry
            if isinstance(retry, Idempotent):
                repeatable.begins_ns += kind.delay_ms * NS_PER_MS
                self._hedges.expect(repeatable, retry, kind.service, now_ns)
            pending = repeatable
        else:
            pending = Done(token, kind, message_id, envelope, header, body, now_ns, deadline_ns)
        if kind.retry is not None or kind.at_least_once:
            self._keeps = True
        if kind.delay_ms:
            self._delays = True
        pending.place = place
        self._pending[envelope] = pending
        self._unsent.append(pending)
        self._timers.set(pending, deadline_ns)

    def submit_all(self, now_ns: int, wishes: deque[Wish]) -> None:
        """All that are there, and what others add meanwhile."""
        while wishes:
            token, kind, body, message_id, place = wishes.popleft()
            self.submit(now_ns, token, kind, body, message_id, place)

    def next_to_send(self, now_ns: int, limit: int) -> list[Frames]:
        """The oldest unsent messages; `on_sent` must be told how many of them the connection took."""
        first = self._unsent[:limit]
        if first and first[0].is_stale(now_ns):
            for pending in first:
                if pending.is_stale(now_ns):
                    pending.shorten_timeout(now_ns)
        if self._delays:
            for pending in first:
                if pending.has_delay and now_ns - pending.submitted_ns >= NS_PER_MS:
                    pending.shorten_timeout(now_ns)
        return [pending.message() for pending in first]

    def on_sent(self, count: int) -> None:
        first = self._unsent[:count]
        if self._keeps:
            self._bodies.on_sent(first, self.leg, self._elsewhere)
        else:
            for pending in first:
                pending.leg = self.leg
                pending.let_go()
        del self._unsent[:count]

    def on_messages(self, batch: list[Frames], now_ns: int = NEVER_NS, leg: int = 0) -> list[Done]:
        """`leg`: over which they came; 0 stands for the present one."""
        done: list[Done] = []
        all_pending, timers = self._pending, self._timers
        keeps, streams = self._keeps, self._streams
        for message in batch:
            pending = all_pending.get(message[0]) if len(message) == 3 else None
            if pending is None or not pending.leg:
                if streams and len(message) == 3 and message[1] == headers.PART:
                    self._on_part(message, done)
                else:
                    self._on_other(message, leg or self.leg)
                continue
            del all_pending[message[0]]
            timers.cancel(pending)
            header = message[1]
            is_plain = not streams or not isinstance(pending, Streamed)
            if is_plain and header.endswith(_OK_TAIL) and header.startswith(_OK_HEAD):
                pending.outcome = "OK"
                pending.body = message[2]
            else:
                pending.read_answer(header, message[2])
                pending.broker = self._address_of(pending)
                if pending.outcome == "REJECTED" or pending.outcome == "UNKNOWN":
                    if self._hedges.on and self._hedges.goes_on(pending):
                        continue
                    if self._is_refusal(pending):
                        self.refused.append(pending)
                        continue
                    if self._retries.allows(pending, now_ns, self._number):
                        self._rest(pending, now_ns)
                        continue
                    doubt(pending)
            if keeps and pending.is_kept:
                self._bodies.let_go(pending)
            done.append(pending)
        return self._hedges.settle(done, now_ns) if self._hedges.on else done

    def on_lost(self, now_ns: int = 0, leg: int = 0) -> list[Done]:
        """A connection is gone, or all of them: what was sent may have run. What was not sent waits for the next one.

        So does what should run at least once.
        """
        reason = reasons.reason(reasons.BROKER_LOST, "the connection was lost before the answer came")
        self._was_lost = True
        if leg:
            self.cancels.pop(leg, None)
            self.wanting.pop(leg, None)
        else:
            self.cancels.clear()
            self.wanting.clear()
        if self._hedges.on:
            self._hedges.lose(leg, reason)
        lost = [pending for pending in self._pending.values() if pending.leg and leg in (0, pending.leg)]
        again: list[Done] = []
        ended: list[Done] = []
        for pending in lost:
            if isinstance(pending, Repeatable) and pending.is_kept and pending.deadline_ns > now_ns:
                pending.note_doubt(reason)
                again.append(pending)
            else:
                ended.append(self._give_up(pending, "UNKNOWN", reason))
        self._send_first(again + self._retries.take())
        return ended

    def on_up(self, now_ns: int) -> None:
        if self._was_lost:
            self._retries.on_back(now_ns)

    def open_tokens(self) -> list[object]:
        """The tokens of all tasks that have not ended."""
        return [pending.token for pending in (*self._pending.values(), *self.refused)]

    def on_tick(self, now_ns: int) -> list[Done]:
        done: list[Done] = []
        expired = 0
        for pending in self._timers.due(now_ns):
            if not pending.leg:
                expired += 1
                done.append(self._give_up(pending, "REJECTED", pending.reason or self._expired()))
            elif pending.deadline_ns + GRACE_NS <= now_ns:
                reason = reasons.reason(reasons.BROKER_LOST, "no answer within the time-out")
                done.append(self._give_up(pending, "UNKNOWN", reason))
            else:
                # Only the few that get this far need a second timer.
                self._timers.set(pending, pending.deadline_ns + GRACE_NS)
        if expired:
            self._unsent[:] = [pending for pending in self._unsent if pending.envelope in self._pending]
            self._retries.drop_ended(self._pending)
        if self._retries.next_due_ns <= now_ns:
            self._unsent[:0] = self._retries.due(now_ns)
        if self._hedges.next_due_ns <= now_ns:
            for pending in self._hedges.due(now_ns):
                if self._retries.has_budget(now_ns, self._number):
                    self._hedges.begin(pending, now_ns)
        return self._hedges.settle(done) if self._hedges.on else done

    # -- streams ------------------------------------------------------------------------------------------------

    def _on_part(self, message: Frames, ended: list[Done]) -> None:
        place = message[0]
        pending = self._pending.get(place[: -stream.NUMBER_BYTES])
        if not isinstance(pending, Streamed) or not pending.leg:
            self.late += 1
        elif pending.on_part(stream.read_place(place)[1], message[2]):
            if pending.came and pending.is_kept:
                self._bodies.let_go(pending)  # it is not sent again, whatever happens
            if not pending.is_fed:
                pending.is_fed = True
                self.fed.append(pending)
        else:
            self.cancels.setdefault(pending.leg, []).append(pending.envelope)
            sentence = f"after {pending.came} parts came something that is not the next one, or was not asked for"
            ended.append(self._give_up(pending, "UNKNOWN", reasons.reason(reasons.INCOMPLETE, sentence)))

    def take_fed(self) -> list[Streamed]:
        """Those for whose readers there is something new."""
        fed, self.fed = self.fed, []
        for pending in fed:
            pending.is_fed = False
        return fed

    def want(self, pending: Streamed) -> None:
        """Its reader has taken so many parts that its broker should send more; `wanting` says whom to tell."""
        if self.is_open(pending, pending.leg):
            self.wanting.setdefault(pending.leg, []).append(pending)

    # -- cancelling ---------------------------------------------------------------------------------------------

    def cancel(self, tokens: Set[object]) -> list[Done]:
        """Nobody wants the tasks with these tokens any more. Returns those that have ended, since they were never sent.

        The others end as their brokers say, and are not sent again; `cancels` has what those must be told.
        """
        reason = reasons.reason(reasons.CANCELLED, "it was cancelled before it was sent")
        ended: list[Done] = []
        for pending in [each for each in self._pending.values() if each.token in tokens]:
            if isinstance(pending, Streamed):
                pending.leave()
            if pending.leg:
                self._bodies.let_go(pending)
                self.cancels.setdefault(pending.leg, []).append(pending.envelope)
            else:
                ended.append(self._give_up(pending, "REJECTED", reason))
        for pending in self.refused:
            if pending.token in tokens:
                self._bodies.let_go(pending)
        if ended:
            self._unsent[:] = [pending for pending in self._unsent if pending.envelope in self._pending]
            self._retries.drop_ended(self._pending)
        return self._hedges.settle(ended) if self._hedges.on else ended

    def take_cancels(self, leg: int) -> list[Frames]:
        """The messages that tell the broker at the end of this leg."""
        return [[b"", headers.CANCEL, envelope] for envelope in self.cancels.pop(leg, [])]

    def close(self) -> list[Done]:
        """End everything that is open."""
        reason = reasons.reason(reasons.BROKER_LOST, "the client was closed before the answer came")
        never = reasons.reason(reasons.EXPIRED, "the client was closed before it was sent")
        self._unsent.clear()
        self._retries.take()
        refused, self.refused = self.refused, []
        ended = [self._end_refused(pending) for pending in refused]
        for pending in list(self._pending.values()):
            if pending.leg:
                ended.append(self._give_up(pending, "UNKNOWN", reason))
            else:
                ended.append(self._give_up(pending, "REJECTED", never))
        return self._hedges.settle(ended) if self._hedges.on else ended

    @property
    def next_due_ns(self) -> int:
        # In pairs: compiled code compares two numbers by itself, but calls Python for more.
        due_ns = min(self._timers.next_due_ns, self._retries.next_due_ns)
        return min(due_ns, self._hedges.next_due_ns)

    # -- from broker to broker ----------------------------------------------------------------------------------

    def on_brokers(self, elsewhere: bool, tried: str, address: str = "") -> None:
        """Whether there is another broker to go to, where we have looked for one, and where we are."""
        self._address = address
        self._elsewhere = elsewhere
        self._keeps = self._keeps or elsewhere
        self._tried = tried

    def question(self) -> Frames:
        """A message that asks for brokers; `told` will have the body of its answer."""
        self._number += 1
        self._question = b"?" + self._number.to_bytes(8, "big")
        services = self._headers.services
        return [self._question, headers.write("NEEDBROKER", "REQUEST", services=services, role="client"), b""]

    def next_leg(self) -> tuple[int, list[Done]]:
        """From now on, send over another connection. Returns the leg that is over, and what is open on it."""
        leg = self.leg
        self.leg += 1
        self._question = b""
        self._send_first(self._retries.take())
        return leg, [pending for pending in self._pending.values() if pending.leg == leg]

    def is_open(self, done: Done, leg: int) -> bool:
        """Whether its answer may still come over this leg."""
        return done.leg == leg and self._pending.get(done.envelope) is done

    def send_again(self, now_ns: int) -> list[Done]:
        """Send the refused ones to another broker. Returns those for which it is too late: they have ended."""
        refused, self.refused = self.refused, []
        again: list[Done] = []
        ended: list[Done] = []
        for pending in refused:
            if pending.is_kept and pending.deadline_ns > now_ns:
                again.append(pending)
            else:
                ended.append(self._end_refused(pending))
        self._send_first(again)
        return ended

    def pass_on(self, now_ns: int) -> list[Done]:
        """Nobody else will take the refused ones: they rest, and are tried again. Returns those that have ended."""
        refused, self.refused = self.refused, []
        ended: list[Done] = []
        for pending in refused:
            goes_on = may_have_run(pending) and pending.is_kept and pending.deadline_ns > now_ns
            if goes_on or self._retries.allows(pending, now_ns, self._number):
                self._rest(pending, now_ns)
            else:
                ended.append(self._end_refused(pending))
        return ended

    def _is_refusal(self, pending: Done) -> bool:
        """Whether another broker may take this task, according to the answer of its own."""
        if pending.outcome == "REJECTED":
            return reasons.code_of(pending.reason) in (reasons.DISABLED, reasons.BROKER_LOST)
        if isinstance(pending, Repeatable):
            pending.note_doubt(pending.reason)
            return reasons.code_of(pending.reason) == reasons.BROKER_LOST
        return False

    def _send_first(self, again: list[Done]) -> None:
        for each in again:
            self._renew(each)
        self._unsent[:0] = again

    def _renew(self, pending: Done) -> None:
        """As if it had never been sent, but under a new envelope: no answer of a former broker is meant for it now."""
        self._bodies.on_renewed(pending)
        self._pending.pop(pending.envelope, None)
        if isinstance(pending, Repeatable) and pending.may_have_run and isinstance(pending.retry, Idempotent):
            pending.keep_name(self._new_id, self._headers.token)
        self._number += 1
        pending.renew(self._number.to_bytes(8, "big"))
        self._pending[pending.envelope] = pending
        if pending.bucket is None:
            self._timers.set(pending, pending.deadline_ns)

    def _rest(self, pending: Done, now_ns: int) -> None:
        reason = pending.reason
        self._renew(pending)
        # Should its time be up before anybody takes it.
        pending.reason = reason
        self._retries.rest(pending, now_ns)

    def _end_refused(self, pending: Done) -> Done:
        self._bodies.let_go(pending)
        doubt(pending)
        return pending

    def _on_other(self, message: Frames, leg: int) -> None:
        if self._question and message and message[0] == self._question:
            self._question = b""
            self.told = message[-1]
        elif len(message) == 3 and message[1] == headers.LEAVING:
            self._on_leaving(leg)
        else:
            self.late += 1

    def _on_leaving(self, leg: int) -> None:
        """Its broker has ended all tasks that it had taken, and reads no more: what is open there did not run."""
        self.left = leg
        reason = reasons.reason(reasons.DISABLED, "the broker stopped before it read the task")
        if self._hedges.on:
            self._hedges.lose(leg, "")
        for pending in [each for each in self._pending.values() if each.leg == leg]:
            del self._pending[pending.envelope]
            if pending.bucket is not None:
                self._timers.cancel(pending)
            if isinstance(pending, Streamed) and pending.came:
                pending.reason = reasons.reason(reasons.BROKER_LOST, "the broker stopped before the stream had ended")
            else:
                pending.outcome = "REJECTED"
                pending.reason = reason
            pending.broker = self._address_of(pending)
            self.refused.append(pending)

    # -- inside -------------------------------------------------------------------------------------------------

    def _address_of(self, pending: Done) -> str:
        return self._address if pending.leg == self.leg else ""

    def _expired(self) -> str:
        where = f"; tried {self._tried}" if self._tried else ""
        return reasons.reason(reasons.EXPIRED, f"no broker took it within the time-out{where}")

    def _give_up(self, pending: Done, outcome: Outcome, reason: str) -> Done:
        del self._pending[pending.envelope]
        if pending.bucket is not None:
            self._timers.cancel(pending)
        self._bodies.let_go(pending)
        pending.outcome = outcome
        pending.reason = reason
        pending.broker = self._address_of(pending)
        doubt(pending)
        return pending
