"""The dispatcher: batches of frames come in, batches of frames go out.

It owns the state of one broker and decodes no header. What a header means is a question to a router; what follows
from the router's decision is done here, or in the parts that this class puts together:

    Flows         which headers need no router, since one of them decided about them before
    Questions     which router is asked; what a lost router left behind
    Assignment    LRU, backlog, wait queue; the one outcome of every task
    Services      which services are known
    Sessions      which workers are connected, alive, ignored
    Claims        who gets a name that another worker has
    Delegates     which other broker helps where no slot is free
    Managing      what admins want, on its way to the steward and back
    Repeats       how tasks with an id of their own ended, for those who ask again
    Facts         what the journal is to know of all this

The shell around it reads sockets, tells it the time with `at(now_ns)` and what came with `on_...(batch)`, lets it
`flush` to its ports what has gathered, and comes back at `next_due_ns` at the latest.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.dispatch.assignment import Assignment
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.counters import Counters
from famulus.core.dispatch.delegates import Delegates, Offer
from famulus.core.dispatch.facts import Facts, Work
from famulus.core.dispatch.flows import Flow, Flows
from famulus.core.dispatch.managing import Managing
from famulus.core.dispatch.message_ids import MessageIds
from famulus.core.dispatch.now import Now
from famulus.core.dispatch.outgoing import Frames, Outgoing, Ports
from famulus.core.dispatch.question import Question
from famulus.core.dispatch.questions import Questions
from famulus.core.dispatch.repeats import Repeats
from famulus.core.dispatch.services import Services
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.sessions import IN_USE, Sessions
from famulus.core.dispatch.strangers import unique_part
from famulus.core.dispatch.task import Task
from famulus.core.load import load
from famulus.errors import ProtocolError
from famulus.wire import inner, limits, reasons
from famulus.wire.headers import write_error, write_text
from famulus.wire.rows import Journal

TERMS_REMEMBERED: Final = 4096
#: So many may wait for the same task; a client that asks more often has a fault.
WAITERS_MAX: Final = 100

#: A drained broker stays until nobody has asked it for so long. Who is refused goes elsewhere; but a task that is on
#: its way when the broker ends may have run, for all that its client knows.
QUIET_NS: Final = 250 * NS_PER_MS
#: Some know no other broker, and ask again and again.
STAYS_NS: Final = 2 * NS_PER_S

_BAD_FRAMES: Final = write_error(
    reasons.BAD_FRAMES, "a message is [envelope][header][body], the envelope at most 255 bytes"
)
_HEADER_TOO_LARGE: Final = write_error(reasons.TOO_LARGE, f"a header has at most {limits.HEADER_BYTES_MAX} bytes")
_POISON: Final = write_error(reasons.BAD_HEADER, "no router could read this header")
_NOT_CONNECTED: Final = write_error(reasons.NOT_CONNECTED, "connect again")


class Dispatcher:
    def __init__(
        self,
        bounds: Bounds,
        first_number: int,
        declared: list[bytes],
        settled_at_ns: int = 0,
        *,
        message_ids: MessageIds | None = None,
        journal: Journal | None = None,
        secret: str = "",
    ) -> None:
        """`settled_at_ns`: see `Services`.

        `secret`: random, and told to nobody but other brokers.
        `journal`: where rows go, if somebody wants them.
        """
        self._now = now = Now()
        self.out = out = Outgoing()
        self.bounds = bounds
        # Asked for in every turn of the loop; to read them from a struct costs compiled code ten times as much.
        self._questions_max = bounds.questions_max
        self._questions_bytes_max = bounds.questions_bytes_max
        self._body_bytes_max = bounds.body_bytes_max
        self.counters = Counters()
        self.flows = Flows(bounds.flows_max)
        self.facts = Facts(journal)
        self.message_ids = message_ids or MessageIds(first_number)
        self.questions = Questions(first_number, self.counters)
        self.delegates = Delegates()
        self.repeats = Repeats(bounds.results_max, bounds.results_bytes_max)
        self.services = Services(bounds.services_max, self.flows, self.delegates, settled_at_ns)
        self.services.declare(declared)
        self.assignment = Assignment(
            now,
            out,
            self.services,
            self.counters,
            self.questions.next_number,
            bounds.open_tasks_max,
            bounds.open_bytes_max,
            self.repeats,
            self.delegates,
            self.facts,
        )
        self._secret = secret
        self.assignment.token = write_text(secret)
        self.sessions = Sessions(self.assignment, self.services, now, out, self.counters, bounds, self.facts)
        self.draining = False
        self._drained_by_ns = NEVER_NS
        #: While it drains: when somebody asked last; since when it has nothing to do.
        self._asked_ns = 0
        self._idle_ns = NEVER_NS
        self.managing = Managing(out)
        self._terms: dict[bytes, inner.Terms] = {}
        self._body_too_large = write_error(reasons.TOO_LARGE, f"a body has at most {bounds.body_bytes_max} bytes here")
        self._on_decision: dict[bytes, Callable[[Question, Frames], None]] = {
            inner.ACCEPT: self._on_accept,
            inner.ANSWER: self._on_answer,
            inner.REPLY: self._on_reply,
            inner.CONNECT: self._on_connect,
            inner.PONG: self._on_pong,
            inner.DISCONNECT: self._on_disconnect,
            inner.LATE: self._on_late,
            inner.MANAGE: self._on_manage,
            inner.FAULT: self._on_fault,
        }

    def at(self, now_ns: int) -> None:
        """What comes next came then."""
        self._now.set(now_ns)

    # -- messages come ------------------------------------------------------------------------------------------

    def on_clients(self, batch: list[Frames]) -> None:
        now_ns = self._now.ns
        questions = self.questions
        flows = self.flows.by_header
        body_bytes_max = self._body_bytes_max
        if self.draining and batch:
            self._asked_ns = now_ns
        for message in batch:
            if (
                len(message) != 4
                or len(message[3]) > body_bytes_max
                or len(message[2]) > limits.HEADER_BYTES_MAX
                or len(message[1]) > limits.ENVELOPE_BYTES_MAX
            ):
                self.counters.faults += 1
                self.out.clients.append(self._refusal(message))
                continue
            client, envelope, header, body = message
            flow = flows.get(header)
            if flow is not None:
                self._follow(flow, client, envelope, body)
                continue
            questions.ask(Question(inner.FROM_CLIENT, client, envelope, header, body, now_ns))

    def on_workers(self, batch: list[Frames]) -> None:
        now_ns = self._now.ns
        questions, assignment, sessions = self.questions, self.assignment, self.sessions
        by_peer = sessions.by_peer
        pongs = self.flows.pongs
        plain_ok = self.bounds.flows_max > 0
        body_bytes_max = self._body_bytes_max
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
                self._fault(peer, self._refusal(message))
                continue
            _, envelope, header, body = message
            if session is None:
                questions.ask(Question(inner.FROM_STRANGER, peer, envelope, header, body, now_ns))
            elif envelope in session.running:
                if not (plain_ok and assignment.plain_answer(session, envelope, header, body)):
                    task = assignment.ticket_back(session, envelope, len(body))
                    if task is not None:
                        questions.ask(Question(inner.FROM_WORKER_ANSWER, peer, envelope, header, body, now_ns, task))
                if session.farewell is not None and not session.running:
                    sessions.end(session, b"disconnected")
            elif (pong := pongs.get(header)) is not None:
                self._pong(session, envelope, pong, now_ns)
            else:
                questions.ask(Question(inner.FROM_WORKER, peer, envelope, header, body, now_ns))

    def on_router(self, router_id: bytes, decisions: list[Frames]) -> None:
        now_ns = self._now.ns
        answered = self.questions.answered
        follow = self._on_decision
        self.questions.heard(router_id, now_ns)
        for decision in decisions:
            if len(decision) < 2 or len(decision) != inner.DECISION_PARTS.get(decision[1]):
                self.on_router_gone(router_id)  # it does not speak our language: others are asked instead
                return
            if decision[1] == inner.HELLO:
                self.questions.router_alive(router_id, now_ns)
                continue
            question = answered(decision[0])
            if question is None:
                self.counters.stale_decisions += 1
                continue
            try:
                follow[decision[1]](question, decision)
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
                self.questions.router_alive(subject, self._now.ns)
            elif kind == inner.ROUTER_GONE:
                self.on_router_gone(subject)

    # -- other brokers help -------------------------------------------------------------------------------------

    def on_peers(self, identity: str, offers: list[Offer]) -> None:
        """The steward tells who we are, and what our peers have free."""
        self.assignment.identity = identity.encode()
        for gone in self.delegates.update(offers):
            self.assignment.lose_delegate(gone)
        self.services.look_at_others()
        self.assignment.relieve()

    def on_delegate_link(self, identity: bytes, up: bool) -> None:
        delegate = self.delegates.by_identity.get(identity)
        if delegate is None:
            return
        delegate.up = up
        if up:
            self.services.look_at_others()
            self.assignment.relieve()
        else:
            self.assignment.lose_delegate(delegate)

    def on_delegate(self, identity: bytes, batch: list[Frames]) -> None:
        """Answers of another broker."""
        delegate = self.delegates.by_identity.get(identity)
        for message in batch:
            if delegate is None or len(message) != 3:
                self.counters.late += 1
                continue
            ticket, header, body = message
            task = self.assignment.delegated_answer(delegate, ticket, header, body)
            if task is not None:
                self.questions.ask(Question(inner.FROM_DELEGATE, identity, ticket, header, body, self._now.ns, task))

    def on_refused_delegate(self, identity: bytes, refused: list[Frames]) -> None:
        delegate = self.delegates.by_identity.get(identity)
        for message in refused if delegate is not None else ():
            assert delegate is not None
            self.assignment.undelivered_to_delegate(delegate, message[0])

    # -- messages leave -----------------------------------------------------------------------------------------

    def take(self) -> Outgoing | None:
        """All that is to leave now; it is the caller's from then on. None if there is nothing."""
        out = self.out
        questions = self.questions.take_batches()
        return out.take(questions) if questions or out else None

    def flush(self, ports: Ports) -> None:
        """Let everything leave, and what refusals lead to: each ends a session, a router or a link, so this ends."""
        while (out := self.take()) is not None:
            for identity, task in out.delegates:
                if not ports.to_delegate(identity, task):
                    self.on_refused_delegate(identity, [task])
            if out.steward and not ports.to_steward(out.steward):
                self.managing.on_steward_gone()  # what it was asked is answered when the time is up
            for router, questions in out.questions:
                if not ports.to_router(router, questions):
                    self.on_refused_router(router, questions)
            if out.workers and (refused := ports.to_workers(out.workers)):
                self.on_refused_workers(refused)
            if out.clients and (refused := ports.to_clients(out.clients)):
                self.on_refused_clients(refused)

    # -- sends were refused -------------------------------------------------------------------------------------

    def on_refused_clients(self, refused: list[Frames]) -> None:
        """The client is gone, or reads too little. The task has its outcome; nobody is there to hear it."""
        self.counters.refused_by_client += len(refused)

    def on_gone_workers(self, peers: list[bytes]) -> None:
        """Their connections are over; what came before has been heard."""
        self.sessions.gone(peers)

    def on_refused_workers(self, refused: list[Frames]) -> None:
        self.counters.refused_by_worker += len(refused)
        self.sessions.unreachable(refused)

    def on_refused_router(self, router_id: bytes, questions: list[Frames]) -> None:
        """It is gone, and never saw these."""
        self.questions.never_asked(questions)
        self.on_router_gone(router_id)

    def on_router_gone(self, router_id: bytes) -> None:
        """A send to it was refused, it talks nonsense, or its supervisor says so: another one is asked."""
        self.questions.router_gone(router_id)
        self._give_up_poison()

    # -- time passes --------------------------------------------------------------------------------------------

    def on_pause(self, pause_ns: int) -> None:
        """We were stopped or starved for so long: a silence that we could not have heard is nobody's fault."""
        self.sessions.forgive(pause_ns)
        self.questions.forgive(pause_ns)

    def on_tick(self) -> None:
        now_ns = self._now.ns
        self.assignment.on_tick()
        self.sessions.on_tick()
        self._settle_claims()
        self.questions.on_tick(now_ns)
        self._give_up_poison()
        self.managing.on_tick(now_ns)
        self.services.on_tick(now_ns)
        if self.draining and now_ns >= self._drained_by_ns:
            self.assignment.end_all()

    @property
    def next_due_ns(self) -> int:
        """When `on_tick` wants to be called next, if nothing happens before."""
        # In pairs: compiled code compares two numbers by itself, and asks Python about more.
        due_ns = min(self.assignment.timers.next_due_ns, self.sessions.next_due_ns)
        due_ns = min(due_ns, self.questions.next_due_ns)
        due_ns = min(due_ns, self.managing.next_due_ns)
        if self.assignment.open_tasks:
            due_ns = min(due_ns, self._drained_by_ns)
        return min(due_ns, self.services.next_due_ns)

    def work(self) -> Work:
        slots: dict[bytes, list[int]] = {name: [0, 0] for name in self.services.by_name}
        for session in self.sessions.by_peer.values():
            if session.ready:
                for service in session.services:
                    counts = slots[service.name]
                    counts[0] += session.free
                    counts[1] += session.slots - session.free
        return {
            name.decode(): (slots[name][0], slots[name][1], service.backlog.tasks)
            for name, service in self.services.by_name.items()
        }

    def slots(self) -> tuple[int, int]:
        """Free and busy ones, each once: a worker of several services is in the work of each of them."""
        sessions = self.sessions.by_peer.values()
        free = sum([session.free for session in sessions if session.ready])
        return free, sum([session.slots - session.free for session in sessions])

    def load(self) -> float:
        return load(*self.slots(), sum([service.backlog.tasks for service in self.services.by_name.values()]))

    def error_workers(self) -> list[tuple[str, int, int]]:
        return self.sessions.error_workers.listed(self._now.ns)

    def ignore(self, identities: list[bytes]) -> None:
        """The config names these workers: they are not to be heard."""
        self.sessions.ignore(identities)

    def forgive(self, name: bytes) -> None:
        """An admin wants this worker, or all, to be heard again."""
        self.facts.stranger(name or b"*", b"cleared", self._now.ns)
        if name:
            self.sessions.error_workers.clear(name)
        else:
            self.sessions.error_workers.clear_all()

    def checkpoint(self, work: Work) -> None:
        """Once a second the journal is told what is open, and how much there is to do."""
        self.facts.checkpoint(self.assignment.timers, work, self._now.ns)

    def drain(self, within_ns: int) -> None:
        """No new tasks from now on; those that are open end by themselves, or are ended when the time is up."""
        now_ns = self._now.ns
        self.draining = True
        self._asked_ns = now_ns
        self.flows.close()
        self.sessions.closed = True
        self._drained_by_ns = min(self._drained_by_ns, now_ns + within_ns)

    def drained(self) -> bool:
        """Everybody has been told, and has gone; when the time is up, questions that nobody decides do not keep us."""
        now_ns = self._now.ns
        if not self.draining or self.assignment.open_tasks:
            self._idle_ns = NEVER_NS
            return False
        if now_ns >= self._drained_by_ns:
            return True
        self._idle_ns = min(self._idle_ns, now_ns)
        return not len(self.questions) and now_ns >= min(self._asked_ns + QUIET_NS, self._idle_ns + STAYS_NS)

    @property
    def reads_clients(self) -> bool:
        """Routers are behind: what clients send may wait in their sockets, which is the cheapest place."""
        questions = self.questions
        return len(questions) < self._questions_max and questions.held_bytes < self._questions_bytes_max

    @property
    def reads_workers(self) -> bool:
        """Workers are read for longer: their answers make room."""
        questions = self.questions
        return len(questions) < 2 * self._questions_max and questions.held_bytes < 2 * self._questions_bytes_max

    # -- routers decide -----------------------------------------------------------------------------------------

    def _on_accept(self, question: Question, decision: Frames) -> None:
        _, _, name, terms_frame, worker_head, client_head, message_id, epoch_frame, visited, token = decision
        _demand(question.origin == inner.FROM_CLIENT)
        epoch = inner.read_epoch(epoch_frame) if epoch_frame else 0
        key = b""
        if not epoch_frame:
            token = token or self._token_of(question.asker)
            key = _key(token, name, message_id)
        if key and self._told_before(question, key, client_head + message_id, bool(visited)):
            return
        service = self.services.find(name, self._now.ns)
        terms = self._terms.get(terms_frame)
        if terms is None:
            terms = self._remember(terms_frame)
        if service is None or self.draining:
            rejection = inner.REJECTED_DRAINING if self.draining else inner.REJECTED_NO_SERVICE
            self.counters.accepted += 1
            self.counters.rejected += 1
            self.out.clients.append([question.asker, question.envelope, client_head + message_id + rejection, b""])
            self.facts.rejected_unseen(
                self.questions.next_number(),
                message_id,
                name,
                question.asker,
                terms,
                inner.read_names(visited),
                question.seen_ns,
                rejection,
                self._now.ns,
                len(question.body),
            )
            return
        way = tuple(inner.read_names(visited)) if visited else ()
        flow = Flow(service, terms, worker_head, client_head, way, token if key else b"")
        seen_ns = question.seen_ns
        task = Task(question.asker, question.envelope, question.body, seen_ns, flow, message_id, seen_ns)
        if visited:
            self.delegates.exchange(flow.came_from).taken += 1
        if key:
            task.known = self.repeats.begin(key)
        self.assignment.accept(task)
        if epoch and service.expected_by_ns == NEVER_NS:
            self.flows.install(question.header, epoch, flow)

    def _token_of(self, client: bytes) -> bytes:
        """Of a client that gave none: its connection's. Nobody else can give it, since it has our secret in it."""
        return write_text(f"{self._secret}-{unique_part(client).hex()}")

    def _told_before(self, question: Question, key: bytes, head: bytes, from_broker: bool) -> bool:
        """Whether this is a task that we know already: then its client hears how it ended, or will."""
        known = self.repeats.get(key, self._now.ns)
        if known is None:
            return False
        self.counters.repeated += 1
        if known.ended_ns:
            tail = known.tail if known.whole else inner.UNKNOWN_FORGOTTEN
            self.out.clients.append([question.asker, question.envelope, head + tail, known.body])
        elif from_broker and self.delegates.hold(known):
            # Two brokers got it from one client, and hand it over: each would wait for the other, and nobody run it.
            self.out.clients.append([question.asker, question.envelope, head + inner.REJECTED_HANDED_OVER, b""])
        elif len(known.waiters) < WAITERS_MAX:
            known.waiters.append((question.asker, question.envelope))
        else:
            self.out.clients.append([question.asker, question.envelope, head + inner.UNKNOWN_TOO_MANY_WAIT, b""])
        return True

    def _follow(self, flow: Flow, client: bytes, envelope: bytes, body: bytes) -> None:
        """A header that is known: what a router once decided holds for this task too."""
        self.counters.by_flow += 1
        assignment = self.assignment
        task = Task(client, envelope, body, self._now.ns, flow, self.message_ids.next(), self._now.moment)
        assignment.accept(task)

    def _on_answer(self, question: Question, decision: Frames) -> None:
        _demand(question.task is not None)
        assert question.task is not None
        if decision[2] == inner.OUTCOME_REJECTED:
            _demand(question.origin == inner.FROM_DELEGATE)
            delegate = self.delegates.by_identity.get(question.asker)
            self.assignment.delegate_rejected(question.task, delegate)
            return
        if decision[2] == inner.OUTCOME_UNKNOWN:
            _demand(question.origin == inner.FROM_DELEGATE)
            self.assignment.delegate_unknown(question.task, decision[3])
            return
        self.assignment.answer(question.task, decision[2], decision[3], question.body)

    def _on_reply(self, question: Question, decision: Frames) -> None:
        self._reply(question, decision[2], decision[3])

    def _on_connect(self, question: Question, decision: Frames) -> None:
        _, _, identity, terms, names, header, body, token = decision
        _demand(question.origin != inner.FROM_CLIENT)
        former = self.sessions.by_peer.get(question.asker)
        if former is not None and former.ready and question.seen_ns < former.greeted_ns:
            # It said CONNECT twice before its PING, and this one took longer at its router: it is ready by now.
            self._reply(question, header, body)
            return
        session_terms = inner.read_session_terms(terms)
        holder = self.sessions.holder(question.asker, identity, token)
        if holder is not None:
            self._claim(holder, question, decision)
            return
        refusal = self.sessions.connect(question.asker, identity, inner.read_names(names), session_terms, token)
        if refusal is None:
            self._reply(question, header, body)
        else:
            self._reply(question, refusal, b"")

    def _claim(self, holder: Session, question: Question, decision: Frames) -> None:
        """Another worker has the name: whether that one is there is found out first."""
        is_to_be_asked = self.sessions.claims.make(holder, question, decision, self._now.ns)
        if is_to_be_asked is None:
            self._reply(question, IN_USE, b"")
        elif is_to_be_asked:
            self.sessions.ask(holder)

    def _settle_claims(self) -> None:
        for claim, holder_stays in self.sessions.claims.due(self._now.ns):
            if not holder_stays and not claim.holder.ended:
                self.sessions.dispossess(claim.holder)
            for question, decision in claim.claimants.values():
                if holder_stays:
                    self._reply(question, IN_USE, b"")
                else:
                    # The first one gets the name, and the next one is another that claims it.
                    self._on_connect(question, decision)

    def _on_pong(self, question: Question, decision: Frames) -> None:
        _demand(question.origin == inner.FROM_WORKER)
        session = self.sessions.by_peer.get(question.asker)
        if session is None:
            self._reply(question, _NOT_CONNECTED, b"")
            return
        _, _, pong, epoch_frame = decision
        if epoch_frame:
            self.flows.install_pong(question.header, inner.read_epoch(epoch_frame), pong)
        self._pong(session, question.envelope, pong, question.seen_ns)

    def _pong(self, session: Session, envelope: bytes, pong: bytes, seen_ns: int) -> None:
        """Answer a PING that came then. The first one makes its worker ready."""
        self.out.workers.append([session.peer, envelope, pong, b""])
        if not session.ready and session.farewell is None:
            self.assignment.enter(session, seen_ns)
            self.facts.worker(session, b"ready", self._now.ns)

    def _on_disconnect(self, question: Question, decision: Frames) -> None:
        _demand(question.origin != inner.FROM_CLIENT)
        session = self.sessions.by_peer.get(question.asker)
        farewell = [question.asker, question.envelope, decision[2], b""]
        if session is None:
            self.out.workers.append(farewell)
        else:
            self.sessions.say_goodbye(session, farewell)

    def _on_late(self, question: Question, decision: Frames) -> None:
        self.counters.late += 1
        if decision[2]:
            self._reply(question, decision[2], b"")

    def _on_manage(self, question: Question, decision: Frames) -> None:
        _demand(question.origin == inner.FROM_CLIENT)
        self.managing.ask(question, self._now.ns)

    def _on_fault(self, question: Question, decision: Frames) -> None:
        if question.task is not None:
            self.assignment.bad_answer(question.task)
        if question.origin == inner.FROM_DELEGATE:
            self.counters.faults += 1
        elif question.origin == inner.FROM_CLIENT:
            self.counters.faults += 1
            self._reply(question, decision[2], b"")
        else:
            self._fault(question.asker, [question.asker, question.envelope, decision[2], b""])

    # -- inside -------------------------------------------------------------------------------------------------

    def _reply(self, question: Question, header: bytes, body: bytes) -> None:
        to = self.out.clients if question.origin == inner.FROM_CLIENT else self.out.workers
        to.append([question.asker, question.envelope, header, body])

    def _fault(self, peer: bytes, answer: Frames) -> None:
        """A worker, or somebody at its door, broke the protocol: it is told, and in the end ignored."""
        self.counters.faults += 1
        self.out.workers.append(answer)
        self.sessions.fault(peer)

    def _unreadable_answer(self, session: Session, ticket: bytes) -> None:
        """An answer of no shape at all still ends its task and frees its slot."""
        task = self.assignment.ticket_back(session, ticket, 0)
        if task is not None:
            self.assignment.bad_answer(task)
        if session.farewell is not None and not session.running:
            self.sessions.end(session, b"disconnected")

    def _refusal(self, message: Frames) -> Frames:
        """What to say to a message that is not even of the right shape."""
        envelope = message[1] if len(message) > 1 and len(message[1]) <= limits.ENVELOPE_BYTES_MAX else b""
        header = _BAD_FRAMES
        if len(message) == 4 and envelope == message[1]:
            header = self._body_too_large if len(message[2]) <= limits.HEADER_BYTES_MAX else _HEADER_TOO_LARGE
        return [message[0], envelope, header, b""]

    def _give_up_poison(self) -> None:
        for question in self.questions.take_poison():
            self.counters.faults += 1
            if question.task is not None:
                self.assignment.bad_answer(question.task)
            self._reply(question, _POISON, b"")

    def _remember(self, frame: bytes) -> inner.Terms:
        # Clients mostly use few time-outs and priorities, so a dict saves the unpacking.
        if len(self._terms) >= TERMS_REMEMBERED:
            self._terms.clear()
        terms = self._terms[frame] = inner.read_terms(frame)
        return terms


def _key(token: bytes, service: bytes, message_id: bytes) -> bytes:
    """What a task is remembered by: an id means something only together with whose it is. All have no zero in them."""
    return b"\0".join((token, service, message_id))


def _demand(fits: bool) -> None:
    """A decision must fit its question: a router that mixes them up is as good as lost."""
    if not fits:
        raise ProtocolError(reasons.BAD_FRAMES, "this decision does not fit its question")
