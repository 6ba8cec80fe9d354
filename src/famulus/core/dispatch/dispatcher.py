"""The dispatcher: batches of frames come in, batches of frames go out.

It owns the state of one broker and decodes no header. What a header means is a question to a router; what follows from
the router's decision is up to `decisions`. Both use the parts that `Parts` lists.

The shell around it reads sockets, tells it the time with `at(now_ns)` and what arrived with `on_...(batch)`, has it
`flush` to its ports what has accumulated, and comes back at `next_due_ns` at the latest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from famulus.core.access import BACKEND, FRONTEND
from famulus.core.dispatch import delegation, relay
from famulus.core.dispatch.accounts import Account
from famulus.core.dispatch.decisions import (
    LONG_ENVELOPE,
    VOID,
    follow,
    give_up_poison,
    settle_claims,
    tell_again,
)
from famulus.core.dispatch.flows import Flow
from famulus.core.dispatch.outgoing import Frames, Outgoing, Ports
from famulus.core.dispatch.parts import Parts
from famulus.core.dispatch.questions import Question
from famulus.core.dispatch.repeats import Known
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.slot_count import SlotCount
from famulus.core.dispatch.task import Task
from famulus.core.load import load
from famulus.errors import ProtocolError
from famulus.wire import inner, limits, reasons
from famulus.wire.headers import CANCEL, CREDIT, PART, write_error

# Final, so that compiled code need not look it up each time.
_CANCEL: Final = CANCEL
_CREDIT: Final = CREDIT
_PART: Final = PART
_BAD_FRAMES: Final = write_error(
    reasons.BAD_FRAMES, "a message is [envelope][header][body], the envelope at most 255 bytes"
)
_HEADER_TOO_LARGE: Final = write_error(reasons.TOO_LARGE, f"a header has at most {limits.HEADER_BYTES_MAX} bytes")


class Dispatcher(Parts):
    def at(self, now_ns: int) -> None:
        """Sets the time of everything that follows, until the next call."""
        self.now.set(now_ns)

    # -- messages come ------------------------------------------------------------------------------------------

    def on_clients(self, batch: list[Frames]) -> None:
        now_ns = self.now.ns
        questions = self.questions
        accounts, others = self.accounts.by_peer, self.accounts.others
        # Most messages of a batch come from the same connection as the one before, which names it by the same object.
        last, account, flows = b"", others, others.flows.plain
        body_bytes_max = self.body_bytes_max
        for message in batch:
            if (
                len(message) != 4
                or len(message[3]) > body_bytes_max
                or len(message[2]) > limits.HEADER_BYTES_MAX
                or len(message[1]) > limits.STREAM_ENVELOPE_BYTES_MAX
            ) and self._is_unfit(message):
                self.counters.faults += 1
                self.out.clients.append(self._refusal(message))
                continue
            client, envelope, header, body = message
            if client is not last:
                last, account = client, accounts.get(client, others)
                flows = account.flows.plain
            flow = flows.get(header)
            if flow is not None:
                self._follow(flow, account, client, envelope, body)
            elif header == _CANCEL:
                self.cancels.ask(client, body, now_ns)
            elif account.is_void:
                self.facts.void(account, FRONTEND, client, now_ns)
                self.out.clients.append([client, envelope, VOID, b""])
            elif header == _CREDIT:
                relay.more(self, client, envelope, body)
            elif not self._follow_named(account, client, envelope, header, body):
                questions.ask(Question(account, inner.FROM_CLIENT, client, envelope, header, body, now_ns))
        if self.cancels:
            self.cancels.look()

    def on_clients_gone(self, peers: list[bytes]) -> None:
        """Their connections are closed; what came before that has been processed."""
        self.accounts.gone(FRONTEND, peers)
        if self.streams:
            relay.clients_gone(self, peers)
        self.cancels.gone(peers)
        self.cancels.look()

    def on_workers(self, batch: list[Frames]) -> None:
        now_ns = self.now.ns
        questions, assignment, sessions = self.questions, self.assignment, self.sessions
        accounts = self.accounts
        by_peer = sessions.by_peer
        pongs = self.flows.pongs
        plain_ok = self.bounds.flows_max > 0
        body_bytes_max = self.body_bytes_max
        for message in batch:
            peer = message[0]
            session = by_peer.get(peer)
            if session is not None:
                session.seen_ns = now_ns
            elif sessions.ignored(peer):
                self.counters.ignored += 1
                continue
            if (
                len(message) != 4
                or len(message[3]) > body_bytes_max
                or len(message[2]) > limits.HEADER_BYTES_MAX
                or len(message[1]) > limits.ENVELOPE_BYTES_MAX
            ):
                if session is not None and len(message) > 1 and message[1] in session.running:
                    self._unreadable_answer(session, message[1])
                elif session is not None and len(message) == 4 and message[2] == _PART:
                    relay.unreadable(self, session, message[1])
                sessions.fault(peer, self._refusal(message))
                continue
            _, envelope, header, body = message
            if session is None:
                account = accounts.by_peer.get(peer, accounts.others)
                if account.is_void:
                    self.facts.void(account, BACKEND, peer, now_ns)
                    self.out.workers.append([peer, envelope, VOID, b""])
                else:
                    questions.ask(Question(account, inner.FROM_STRANGER, peer, envelope, header, body, now_ns))
            elif envelope in session.running:
                if not (plain_ok and assignment.plain_answer(session, envelope, header, body)):
                    task = assignment.ticket_back(session, envelope, len(body))
                    if task is not None:
                        account, origin = session.account, inner.FROM_WORKER_ANSWER
                        questions.ask(Question(account, origin, peer, envelope, header, body, now_ns, task))
                if session.farewell is not None and not session.running:
                    sessions.end(session, b"disconnected")
            elif (pong := pongs.get(header)) is not None:
                sessions.pong(session, envelope, pong, now_ns)
            elif header == _PART:
                relay.from_worker(self, session, envelope, body)
            else:
                questions.ask(Question(session.account, inner.FROM_WORKER, peer, envelope, header, body, now_ns))

    def on_router(self, router_id: bytes, decisions: list[Frames]) -> None:
        now_ns = self.now.ns
        answered = self.questions.answered
        self.questions.heard(router_id, now_ns)
        for decision in decisions:
            if len(decision) < 2 or len(decision) != inner.DECISION_PARTS.get(decision[1]):
                self.on_router_gone(router_id)  # it does not speak our language: ask others instead
                return
            if decision[1] == inner.HELLO:
                self.questions.router_alive(router_id, now_ns)
                continue
            question = answered(decision[0])
            if question is None:
                self.counters.stale_decisions += 1
                continue
            try:
                follow(self, question, decision)
            except ProtocolError:
                self.questions.ask(question)
                self.on_router_gone(router_id)
                return

    def on_announcements(self, batch: list[Frames]) -> None:
        for message in batch:
            if len(message) != 3:
                continue
            kind, epoch_frame, subject = message
            if len(epoch_frame) == inner.EPOCH_BYTES:
                self.flows.move_to(inner.read_epoch(epoch_frame))
            if kind == inner.ROUTER_ALIVE:
                self.questions.router_alive(subject, self.now.ns)
            elif kind == inner.ROUTER_GONE:
                self.on_router_gone(subject)

    # -- principals come and go ---------------------------------------------------------------------------------

    def on_principals(self, principals: inner.Principals) -> None:
        """All whom the config knows now, and what they may do."""
        if principals.epoch != self.accounts.epoch:
            self.delays.on_principals()
        self.accounts.update(principals)
        self.sessions.check_rights(self.accounts.by_peer)

    # -- other brokers help -------------------------------------------------------------------------------------

    def on_peers(self, identity: str, offers: list[inner.PeerOffer]) -> None:
        """The steward tells us who we are, and what our peers have free."""
        self.assignment.identity = identity.encode()
        delegation.update(self, offers)

    def on_delegate_link(self, identity: bytes, up: bool) -> None:
        delegation.link(self, identity, up)

    def on_delegate(self, identity: bytes, batch: list[Frames]) -> None:
        """Answers from another broker."""
        for message in batch:
            if len(message) != 3:
                self.counters.late += 1
                continue
            ticket, header, body = message
            task = delegation.answer(self, identity, ticket, header, body)
            if task is not None:
                origin, now_ns = inner.FROM_DELEGATE, self.now.ns
                self.questions.ask(Question(task.account, origin, identity, ticket, header, body, now_ns, task))

    # -- messages leave -----------------------------------------------------------------------------------------

    def take(self) -> Outgoing | None:
        """Everything that should leave now; from then on it belongs to the caller. None if there is nothing."""
        out = self.out
        questions = self.questions.take_batches()
        return out.take(questions) if questions or out else None

    def flush(self, ports: Ports) -> None:
        """Send everything, and what refusals lead to: each ends a session, a router or a link, so this terminates."""
        while (out := self.take()) is not None:
            for identity, task in out.delegates:
                # It may have said meanwhile that it reads no more.
                if not (self.delegates.is_up(identity) and ports.to_delegate(identity, task)):
                    delegation.undelivered(self, identity, task)
            if out.steward and not ports.to_steward(out.steward):
                self.managing.on_steward_gone()  # the requests it has are answered when their time is up
            for router, questions in out.questions:
                if not ports.to_router(router, questions):
                    self.on_refused_router(router, questions)
            if out.workers and (refused := ports.to_workers(out.workers)):
                self.sessions.unreachable(refused)
            if out.clients and (refused := ports.to_clients(out.clients)):
                # They are gone, or read too slowly. Their tasks have outcomes, but nobody is there to hear them.
                self.counters.refused_by_client += len(refused)
                if self.streams:
                    relay.refused(self, refused)

    def on_refused_router(self, router_id: bytes, questions: list[Frames]) -> None:
        """It is gone, and never saw these questions."""
        self.questions.never_asked(questions)
        self.on_router_gone(router_id)

    def on_router_gone(self, router_id: bytes) -> None:
        """A send to it was refused, it talks nonsense, or its supervisor says so: another router is asked."""
        self.questions.router_gone(router_id)
        give_up_poison(self)

    # -- time passes --------------------------------------------------------------------------------------------

    def on_pause(self, pause_ns: int) -> None:
        """We were stopped or starved for this long, and could not hear anybody: it is not anybody's silence."""
        self.sessions.forgive(pause_ns)
        self.questions.forgive(pause_ns)

    def on_tick(self) -> None:
        now_ns = self.now.ns
        delayed = self.assignment.on_tick()
        if delayed:
            if self.cancels:
                self.cancels.look_at(delayed)
            self.delays.end(delayed)
        self.cancels.look()
        self.sessions.on_tick()
        settle_claims(self)
        self.questions.on_tick(now_ns)
        give_up_poison(self)
        self.managing.on_tick(now_ns)
        self.services.on_tick(now_ns)
        if now_ns >= self.closing.by_ns:
            self.assignment.end_all()

    @property
    def next_due_ns(self) -> int:
        """When `on_tick` should be called next, if nothing happens before."""
        # In pairs: compiled code compares two numbers by itself, but calls Python for more.
        due_ns = min(self.outcomes.timers.next_due_ns, self.sessions.next_due_ns)
        due_ns = min(due_ns, self.questions.next_due_ns)
        due_ns = min(due_ns, self.managing.next_due_ns)
        if self.cancels:
            due_ns = min(due_ns, self.cancels.next_due_ns)
        if self.outcomes.open_tasks:
            due_ns = min(due_ns, self.closing.by_ns)
        return min(due_ns, self.services.next_due_ns)

    # -- others want to know ------------------------------------------------------------------------------------

    def count(self) -> SlotCount:
        """To be gone on with."""
        return SlotCount(list(self.sessions.by_peer.values()), list(self.services.by_name.values()))

    def work(self) -> inner.Work:
        """By service: free slots, busy slots, and waiting tasks."""
        return self.count().all().work

    def slots(self) -> tuple[int, int]:
        """Free and busy ones, each counted once: `work` counts a worker of several services for each of them."""
        counted = self.count().all()
        return counted.free, counted.busy

    def load(self, counted: SlotCount | None = None) -> float:
        counted = counted or self.count().all()
        waiting = sum([service.backlog.tasks for service in self.services.by_name.values()])
        return load(counted.free, counted.busy, waiting)

    def error_workers(self) -> list[tuple[str, int, int]]:
        return self.sessions.error_workers.listed(self.now.ns)

    def forgive(self, name: bytes) -> None:
        """An admin wants this worker, or all, to be heard again."""
        self.facts.stranger(name or b"*", b"cleared", self.now.ns)
        self.sessions.error_workers.clear(name)

    def checkpoint(self, work: inner.Work) -> Iterator[None]:
        """Once a second, tell the journal what is open, and how much there is to do: a step for each item."""
        return self.facts.checkpoint(self.outcomes.timers, work, self.now.ns)

    # -- the end ------------------------------------------------------------------------------------------------

    def drain(self, within_ns: int) -> None:
        """No new tasks from now on; open tasks end by themselves, or are ended when the time is up."""
        self.closing.begin(within_ns, self.now.ns)
        self.flows.close()
        self.sessions.closed = True
        self.delays.close()

    def drained(self) -> bool:
        return self.closing.is_done(self.outcomes.open_tasks, len(self.questions), self.now.ns)

    # -- inside -------------------------------------------------------------------------------------------------

    def _follow(self, flow: Flow, account: Account, client: bytes, envelope: bytes, body: bytes) -> None:
        """The header is known: what a router once decided holds for this task too."""
        self.counters.by_flow += 1
        assignment = self.assignment
        task = Task(account, client, envelope, body, self.now.ns, flow, self.message_ids.next(), self.now.moment)
        assignment.accept(task)

    def _follow_named(self, account: Account, client: bytes, envelope: bytes, header: bytes, body: bytes) -> bool:
        """Likewise, if it is known but for the message_id that the client gave the task; false if it is not."""
        named = account.flows.named
        if not named:
            return False
        message_id, rest = self.cutter.cut(header)
        flow = named.get(rest)
        if flow is None:
            return False
        now_ns = self.now.ns
        new = Known(account.name + flow.owner + message_id, 0)
        known = self.repeats.find_or_begin(new, now_ns)
        if known is not new:
            tell_again(self, known, client, envelope, flow.client_head + message_id)
            return True
        self.counters.by_flow += 1
        task = Task(account, client, envelope, body, now_ns, flow, message_id, self.now.moment)
        task.known = known
        self.assignment.accept(task)
        return True

    def _is_unfit(self, message: Frames) -> bool:
        """Whether we really do not read it: an envelope too long for a stream may be good for a plain task."""
        return (
            len(message) != 4
            or len(message[3]) > self.body_bytes_max
            or len(message[2]) > limits.HEADER_BYTES_MAX
            or len(message[1]) > limits.ENVELOPE_BYTES_MAX
            or self._asks_for_stream(message[0], message[2])
        )

    def _asks_for_stream(self, client: bytes, header: bytes) -> bool:
        """As far as we know without a router."""
        flow = self.accounts.by_peer.get(client, self.accounts.others).flows.plain.get(header)
        return flow is not None and flow.credit > 0

    def _unreadable_answer(self, session: Session, ticket: bytes) -> None:
        """Even an answer of the wrong shape ends its task and frees its slot."""
        task = self.assignment.ticket_back(session, ticket, 0)
        if task is not None:
            self.assignment.bad_answer(task)
        if session.farewell is not None and not session.running:
            self.sessions.end(session, b"disconnected")

    def _refusal(self, message: Frames) -> Frames:
        """What to answer to a message that does not even have the right shape."""
        envelope = message[1] if len(message) > 1 and len(message[1]) <= limits.ENVELOPE_BYTES_MAX else b""
        header = _BAD_FRAMES
        if len(message) == 4 and envelope == message[1]:
            header = _HEADER_TOO_LARGE
            if len(message[3]) <= self.body_bytes_max and len(message[2]) <= limits.HEADER_BYTES_MAX:
                header = LONG_ENVELOPE
            elif len(message[2]) <= limits.HEADER_BYTES_MAX:
                header = write_error(reasons.TOO_LARGE, f"a body has at most {self.body_bytes_max} bytes here")
        return [message[0], envelope, header, b""]
