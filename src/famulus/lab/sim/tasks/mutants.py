"""Deliberately broken rules of the dispatcher, and between brokers and clients."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from msgspec.structs import replace

from famulus.core.batch_queue import BatchQueue
from famulus.core.clock import NS_PER_MS
from famulus.core.config.schema import Principal
from famulus.core.dispatch import assignment, delegation, relay
from famulus.core.dispatch.accounts import Account, Accounts, Bearers
from famulus.core.dispatch.assignment import Assignment
from famulus.core.dispatch.by_key import ByKey
from famulus.core.dispatch.cancels import Cancels
from famulus.core.dispatch.chooser import Candidate
from famulus.core.dispatch.delays import Delays
from famulus.core.dispatch.delegates import HOPS_MAX, Delegate, Delegates
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.drain import Drain
from famulus.core.dispatch.flows import FlowTable
from famulus.core.dispatch.lru import LRU
from famulus.core.dispatch.outcomes import Outcomes
from famulus.core.dispatch.parts import Parts
from famulus.core.dispatch.questions import Questions
from famulus.core.dispatch.repeats import Known, Repeats
from famulus.core.dispatch.service import Service
from famulus.core.dispatch.service_time import ServiceTime
from famulus.core.dispatch.session import Session, take_slot
from famulus.core.dispatch.sessions import Sessions
from famulus.core.dispatch.streams import Stream, Streams
from famulus.core.dispatch.task import DELAYED, JUDGING, PUT_OFF, QUEUED, Task
from famulus.core.rights import Rights
from famulus.core.routing.router import Router
from famulus.core.session.client import ClientSession, Done, Repeatable
from famulus.core.session.header_cache import Given
from famulus.core.session.hedges import Hedges
from famulus.core.session.retries import Retries
from famulus.core.session.retry import Idempotent
from famulus.core.session.task_kind import TaskKind
from famulus.core.session.worker import WorkerSession
from famulus.core.steward import principals
from famulus.lab.sim.invariants import Invariant
from famulus.lab.sim.mutants import Mutants
from famulus.wire import headers, inner, reasons
from famulus.wire.headers import write_text

OF_ONE_BROKER = Mutants()
OF_SEVERAL_BROKERS = Mutants()
OF_RIGHTS = Mutants()
#: For those in which workers are chosen by key.
OF_KEYS = Mutants()
#: For the worlds in which there is too much to do.
OF_OVERLOAD = Mutants()

# The right ones, on which most of the wrong ones are built.
_answer = Assignment.answer
_cancel = Cancels.cancel
_pong = Sessions.pong
_delegate = Assignment.delegate
_again_or_unknown = Assignment.again_or_unknown
_worker_answer = WorkerSession.answer
_ticket_back = Assignment.ticket_back
_find = Delegates.find
_answer_of_peer = delegation.answer
_get = Repeats.get
_follow_named = Dispatcher._follow_named
_remember = Service.remember
_connect = Sessions.connect
_on_lost = ClientSession.on_lost
_accept = Router._accept
_follow = Account.follow
_update = Accounts.update
_allows = Retries.allows
_goes_on = Hedges.goes_on
_delegate_header = Task.delegate_header
_pass_on = relay._pass_on
_from_worker = relay.from_worker


@OF_ONE_BROKER.breaks(Assignment, "ticket_back", "late-answer-keeps-slot", Invariant.SLOTS)
def _late_answer_keeps_slot(self: Assignment, session: Session, ticket: bytes, body_bytes: int) -> Task | None:
    """The slot is not given back when an answer comes after the deadline."""
    task = _ticket_back(self, session, ticket, body_bytes)
    if task is None:
        session.free -= 1
    return task


@OF_ONE_BROKER.breaks(Assignment, "again_or_unknown", "always-again", Invariant.DELIVERY)
def _always_again(self: Assignment, task: Task) -> None:
    """An at-most-once task is given to another worker when its own is lost."""
    if task.attempt < task.terms.attempts_max and self._now.ns < task.deadline_ns:
        self.requeue(task)
    else:
        self._outcomes.unknown(task, inner.UNKNOWN_WORKER_LOST)


@OF_ONE_BROKER.breaks(Questions, "router_gone", "router-takes-questions-along", Invariant.ACCOUNTS)
def _lost_router_takes_questions_along(self: Questions, router_id: bytes) -> None:
    """What a lost router had not decided is not asked again."""
    router = self._routers.pop(router_id, None)
    for question in router.asked.values() if router is not None else ():
        del self._open[question.number]
        self.held_bytes -= len(question.header) + len(question.body)


@OF_ONE_BROKER.breaks(Assignment, "answer", "last-answer-wins", Invariant.ACCOUNTS)
def _last_answer_wins(self: Assignment, task: Task, outcome: bytes, tail: bytes, body: bytes) -> None:
    """An answer that was read after the deadline is passed on all the same."""
    if task.stage != JUDGING:
        self._counters.ok += 1
        self._out.clients.append([task.client, task.envelope, task.client_header(tail), body])
    _answer(self, task, outcome, tail, body)


@OF_ONE_BROKER.breaks(Sessions, "connect", "enters-with-config", Invariant.SLOTS, Invariant.NOTHING_LEFT)
def _enters_with_config(
    self: Sessions,
    account: Account,
    peer: bytes,
    identity: bytes,
    names: list[bytes],
    terms: inner.SessionTerms,
    token: bytes,
) -> bytes | None:
    """A worker enters the LRU with its CONFIG, before its first PONG."""
    refusal = _connect(self, account, peer, identity, names, terms, token)
    if refusal is None:
        self._assignment.enter(self.by_peer[peer], self._now.ns)
    return refusal


@OF_ONE_BROKER.breaks(Sessions, "holder", "newer-believed", Invariant.NAMES)
def _newer_is_believed(self: Sessions, account: Account, peer: bytes, identity: bytes, token: bytes) -> None:
    """A worker that connects gets its name, whoever has it."""
    return


@OF_ONE_BROKER.breaks(Outcomes, "unstarted", "started-task-rejected", Invariant.DELIVERY)
def _started_task_is_rejected(self: Outcomes, task: Task, rejection: bytes, unknown: bytes) -> None:
    """A task that waits for its second attempt is rejected as if it had never run."""
    self.reject(task, rejection)


@OF_ONE_BROKER.breaks(Cancels, "cancel", "cancelled-is-rejected", Invariant.DELIVERY)
def _cancelled_is_rejected(self: Cancels, task: Task) -> None:
    """A task that a worker already has is rejected when it is cancelled."""
    if task.stage == QUEUED:
        self._assignment.leave_backlog(task)
    if task.stage != JUDGING:
        self._outcomes.reject(task, inner.REJECTED_CANCELLED)


@OF_ONE_BROKER.breaks(Cancels, "_is_left", "anybody-cancels", Invariant.CANCELS)
def _anybody_cancels(self: Cancels, task: Task, client: bytes, envelope: bytes) -> bool:
    """A task is cancelled by whoever knows its envelope."""
    return any(envelope in envelopes for envelopes in self._wishes.values())


@OF_ONE_BROKER.breaks(Assignment, "again_or_unknown", "cancelled-again", Invariant.CANCELS)
def _cancelled_again(self: Assignment, task: Task) -> None:
    """A cancelled task is given to another worker when its own is lost."""
    task.is_cancelled, was_cancelled = False, task.is_cancelled
    _again_or_unknown(self, task)
    task.is_cancelled = was_cancelled


@OF_ONE_BROKER.breaks(WorkerSession, "answer", "begun-is-rejected", Invariant.DELIVERY)
def _begun_is_rejected(self: WorkerSession, given: Given, outcome: str, reason: str, body: bytes) -> bool:
    """A worker says of a task in the middle of which it was told to stop that it had not begun."""
    return _worker_answer(self, given, "REJECTED" if outcome == "UNKNOWN" else outcome, reason, body)


@OF_ONE_BROKER.breaks(BatchQueue, "remove", "cancelled-in-batch", Invariant.DELIVERY)
def _cancelled_in_batch(self: BatchQueue[Given], unwanted: Callable[[Given], bool]) -> bool:
    """A worker says of a task that it has taken it back, but leaves it where it waits for a batch."""
    return any(unwanted(each.task) for each in self._waiting)


@OF_ONE_BROKER.breaks(relay, "_pass_on", "parts-not-counted", Invariant.STREAMS)
def _parts_are_not_counted(parts: Parts, task: Task, number: bytes, body: bytes) -> bool:
    """A part is passed on whatever its number is."""
    if (stream := parts.streams.of(task)) is not None and any(number):
        stream.passed = int.from_bytes(number, "big") - 1
    return _pass_on(parts, task, number, body)


@OF_ONE_BROKER.breaks(relay, "_pass_on", "credit-not-checked", Invariant.STREAMS)
def _credit_is_not_checked(parts: Parts, task: Task, number: bytes, body: bytes) -> bool:
    """A part is passed on whether it is wanted or not."""
    if (stream := parts.streams.of(task)) is not None:
        stream.wanted = max(stream.wanted, stream.passed + 1)
    return _pass_on(parts, task, number, body)


@OF_ONE_BROKER.breaks(relay, "from_worker", "late-parts-count", Invariant.STREAMS)
def _late_parts_count(parts: Parts, session: Session, place: bytes, body: bytes) -> None:
    """A part is passed on also when its task has its outcome."""
    task = session.running.get(place[:-4])
    if task is not None and not task.waits_for(place[:-4]):
        parts.out.clients.append([task.client, task.envelope + place[-4:], headers.PART, body])
    _from_worker(parts, session, place, body)


@OF_ONE_BROKER.breaks(Streams, "has_begun", "streams-again", Invariant.STREAMS)
def _streams_again(self: Streams, task: Task) -> bool:
    """A stream is given to another worker although its client has had parts of it."""
    return False


@OF_ONE_BROKER.breaks(Streams, "find", "anybody-gives-credit", Invariant.STREAMS)
def _anybody_gives_credit(self: Streams, client: bytes, envelope: bytes) -> Stream | None:
    """Whoever knows the envelope of a stream says how much of it is wanted."""
    for streams in self._by_client.values():
        if envelope in streams:
            return streams[envelope]
    return None


@OF_ONE_BROKER.breaks(relay, "clients_gone", "streams-for-nobody", Invariant.STREAMS)
def _streams_for_nobody(parts: Parts, clients: list[bytes]) -> None:
    """A stream goes on when the connection of its client is lost."""


@OF_ONE_BROKER.breaks(Streams, "end", "streams-stay", Invariant.STREAMS)
def _streams_stay(self: Streams, task: Task) -> int:
    """A stream is remembered when it has ended."""
    return 0


@OF_ONE_BROKER.breaks(Retries, "allows", "doubts-tried-again", Invariant.DELIVERY)
def _doubts_are_tried_again(self: Retries, task: Done, now_ns: int, sent: int) -> bool:
    """A client sends any task again that is UNKNOWN, whether or not it may run twice."""
    retry = task.retry
    if retry is None or isinstance(retry, Idempotent):
        return _allows(self, task, now_ns, sent)
    kind = task.kind
    task.kind = TaskKind(kind.service, kind.timeout_ms, retry=Idempotent(retry))
    try:
        return _allows(self, task, now_ns, sent)
    finally:
        task.kind = kind


@OF_ONE_BROKER.breaks(Router, "_write_terms", "all-are-idempotent", Invariant.DELIVERY)
def _all_are_idempotent(
    self: Router, service: str, timeout_ms: int | None, priority: int, credit: int, is_idempotent: bool, is_hedge: bool
) -> bytes:
    """A broker gives every task of a lost worker to another one, as if its client had said that it may run twice."""
    terms = self._policy_of(service).terms(timeout_ms, priority, credit)
    return inner.write_terms(terms._replace(at_least_once=not is_hedge, is_hedge=is_hedge))


@OF_ONE_BROKER.breaks(Repeatable, "note_doubt", "doubt-forgotten", Invariant.DELIVERY)
def _doubt_is_forgotten(self: Repeatable, reason: str) -> None:
    """A client believes that a task did not run, though an attempt before may have run."""


OF_ONE_BROKER.add(
    "both-at-one-worker",
    "the worker that has the first attempt at a task may get the second one, too",
    assignment,
    "_take_other_slot",
    take_slot,
    Invariant.HEDGES,
)


@OF_ONE_BROKER.breaks(Hedges, "goes_on", "first-end-counts", Invariant.DELIVERY)
def _first_end_counts(self: Hedges, ended: Done) -> bool:
    """If one attempt is rejected, the task is, though its other attempt runs."""
    if isinstance(ended, Repeatable) and ended.hedge is not None and ended.outcome == "REJECTED":
        hedge, ended.hedge = ended.hedge, None
        hedge.first = None
        return False
    return _goes_on(self, ended)


@OF_ONE_BROKER.breaks(Hedges, "settle", "both-attempts-count", Invariant.OUTCOMES)
def _both_attempts_count(self: Hedges, ended: list[Done], now_ns: int = 0) -> list[Done]:
    """Callers are told how each of the two attempts ended."""
    return ended


@OF_ONE_BROKER.breaks(Delays, "_put_off", "before-its-time", Invariant.DELAYS)
def _before_its_time(self: Delays, task: Task) -> None:
    """A task is given out when half of its delay is over."""
    task.stage = PUT_OFF[task.stage]
    self._outcomes.open_bytes += len(task.body)
    task.service.delayed.push(task)
    due_ns = task.arrived_ns + task.terms.delay_ms * NS_PER_MS // 2
    task.deadline_ns = due_ns + task.flow.timeout_ns
    self._outcomes.timers.set(task, due_ns)


@OF_ONE_BROKER.breaks(Cancels, "cancel", "cancelled-waits-on", Invariant.CANCELS)
def _cancelled_waits_on(self: Cancels, task: Task) -> None:
    """A task that waits for its time goes on waiting when it is cancelled."""
    if task.stage == DELAYED:
        task.is_cancelled = True
    else:
        _cancel(self, task)


@OF_ONE_BROKER.breaks(Cancels, "cancel", "cancelled-runs", Invariant.CANCELS)
def _cancelled_runs(self: Cancels, task: Task) -> None:
    """A task that waits in the backlog stays there when it is cancelled."""
    if task.stage == QUEUED:
        task.is_cancelled = True
    else:
        _cancel(self, task)


@OF_ONE_BROKER.breaks(Delays, "accept", "any-number-waits", Invariant.BOUNDS)
def _any_number_waits(self: Delays, task: Task) -> None:
    """Any number of tasks may wait for their time."""
    self._counters.accepted += 1
    self._outcomes.begin(task)
    self._put_off(task)


@OF_OVERLOAD.breaks(ServiceTime, "add", "nobody-learns", Invariant.GOODPUT, Invariant.IN_VAIN)
def _nobody_learns(self: ServiceTime, duration_ns: int, now_ns: int) -> None:
    """How long tasks take is not noted: they wait and are given out until their time is over."""


@OF_OVERLOAD.breaks(ServiceTime, "wait_ns", "all-may-wait", Invariant.PROMPTNESS)
def _all_may_wait(self: ServiceTime, ahead: int, slots: int) -> int:
    """A task joins the backlog however long that will take."""
    return 0


@OF_OVERLOAD.breaks(ServiceTime, "needed_ns", "any-time-will-do", Invariant.GOODPUT, Invariant.IN_VAIN)
def _any_time_will_do(self: ServiceTime, timeout_ns: int) -> int:
    """A task that waited is given out with whatever time it has left."""
    return 0


@OF_SEVERAL_BROKERS.breaks(Drain, "is_done", "leaves-too-soon", Invariant.DELIVERY)
def _leaves_too_soon(self: Drain, open_tasks: int, questions: int, now_ns: int) -> bool:
    """A broker that drains says that all else did not run, while workers are still busy with some of it."""
    return self.on


@OF_SEVERAL_BROKERS.breaks(Sessions, "pong", "ping-ends-drain", Invariant.DRAINED)
def _ping_ends_a_drain(self: Sessions, session: Session, envelope: bytes, pong: bytes, seen_ns: int) -> None:
    """A worker that the config wants drained is given tasks again after its next PING."""
    drained, self.drained = self.drained, frozenset()
    _pong(self, session, envelope, pong, seen_ns)
    self.drained = drained


@OF_SEVERAL_BROKERS.breaks(Delegates, "find", "ignores-via", Invariant.WAYS)
def _find_in_circles(self: Delegates, service: bytes, visited: tuple[bytes, ...]) -> Delegate | None:
    """A task is handed over to a broker that it has come through."""
    return _find(self, service, ()) if len(visited) + 1 < HOPS_MAX else None


@OF_SEVERAL_BROKERS.breaks(Task, "delegate_header", "forgets-via", Invariant.WAYS)
def _delegate_header_without_past(self: Task, now_ns: int, broker: bytes, token: bytes) -> bytes:
    """A task that is handed over names only the last broker that it has come through."""
    left_ms = max(1, (self.deadline_ns - now_ns) // NS_PER_MS)
    whose = self.flow.client_token or token
    end = b',"timeout_ms":%d,"via":[%b],"client_token":%b}' % (left_ms, write_text(broker.decode()), whose)
    return self.flow.worker_head + self.message_id + end


@OF_SEVERAL_BROKERS.breaks(Delegates, "find", "no-hop-limit", Invariant.WAYS)
def _find_for_ever(self: Delegates, service: bytes, visited: tuple[bytes, ...]) -> Delegate | None:
    """A task passes any number of brokers."""
    found = _find(self, service, visited[2 - HOPS_MAX :])
    return found if found is not None and found.identity not in visited else None


@OF_SEVERAL_BROKERS.breaks(delegation, "_lose", "lost-peer-again", Invariant.DELIVERY)
def _lost_peer_means_again(parts: Parts, delegate: Delegate) -> None:
    """An at-most-once task goes to another worker or broker when the one that had it is lost."""
    running, delegate.running = delegate.running, {}
    delegate.up = False
    for ticket, task in running.items():
        if task.waits_for(ticket):
            parts.assignment.requeue(task)


@OF_SEVERAL_BROKERS.breaks(delegation, "_lose", "lost-peer-waited-for", Invariant.PEERS)
def _lost_peer_is_waited_for(parts: Parts, delegate: Delegate) -> None:
    """What a lost peer had is waited for as if it were still there."""
    delegate.up = False


@OF_SEVERAL_BROKERS.breaks(delegation, "unknown", "peer-unknown-again", Invariant.DELIVERY)
def _unknown_of_peer_means_again(parts: Parts, task: Task, tail: bytes) -> None:
    """A task whose outcome a peer does not know is taken for one that it rejected."""
    delegation.rejected(parts, task, b"")


@OF_SEVERAL_BROKERS.breaks(Assignment, "delegate", "handed-over-not-started", Invariant.DELIVERY)
def _handed_over_is_not_started(self: Assignment, task: Task) -> bool:
    """A task that was handed over counts as one that nobody ever had."""
    done = _delegate(self, task)
    if done:
        task.attempt -= 1
    return done


@OF_SEVERAL_BROKERS.breaks(delegation, "answer", "late-peer-counts", Invariant.ACCOUNTS)
def _late_answer_counts(parts: Parts, identity: bytes, ticket: bytes, header: bytes, body: bytes) -> Task | None:
    """The answer of a peer is passed on also when the task has its outcome already."""
    delegate = parts.delegates.by_identity.get(identity)
    task = delegate.running.get(ticket) if delegate is not None else None
    if task is not None and not task.waits_for(ticket):
        parts.counters.ok += 1
        parts.out.clients.append([task.client, task.envelope, header, body])
    return _answer_of_peer(parts, identity, ticket, header, body)


@OF_SEVERAL_BROKERS.breaks(Repeats, "end", "no-memory", Invariant.MEMORY)
def _nothing_is_remembered(
    self: Repeats, known: Known, service: Service, tail: bytes, body: bytes, now_ns: int
) -> None:
    """A broker forgets how a task with an id of its own ended."""
    self.drop(known)


@OF_SEVERAL_BROKERS.breaks(Dispatcher, "_follow_named", "flows-forget-ids", Invariant.MEMORY)
def _ended_is_new_by_a_flow(
    self: Dispatcher, account: Account, client: bytes, envelope: bytes, header: bytes, body: bytes
) -> bool:
    """A task by a known flow is not looked for among those that have ended."""
    known = self.repeats._known
    ended = {key: known.pop(key) for key in list(known) if known[key].until_ns}
    is_known = _follow_named(self, account, client, envelope, header, body)
    self.repeats._known = ended | known
    return is_known


@OF_SEVERAL_BROKERS.breaks(Service, "remember", "forgets-too-soon", Invariant.MEMORY)
def _forget_soon(self: Service, terms: inner.Terms) -> None:
    """A broker does not remember a task for as long as its service says."""
    _remember(self, terms._replace(results_age_ms=terms.results_age_ms // 10))


@OF_SEVERAL_BROKERS.breaks(Repeats, "get", "ids-of-everybody", Invariant.MEMORY, Invariant.DELIVERY)
def _id_is_everybodys(self: Repeats, key: bytes, now_ns: int) -> Known | None:
    """A task is remembered by its id alone, whoever's it is."""
    of_anybody = key.split(b"\0", 2)[2]
    for each in self._known:
        if each.split(b"\0", 2)[2] == of_anybody:
            return _get(self, each, now_ns)
    return None


@OF_SEVERAL_BROKERS.breaks(ClientSession, "on_lost", "client-repeats-all", Invariant.DELIVERY)
def _lost_client_sends_everything_again(self: ClientSession, now_ns: int = 0, leg: int = 0) -> list[Done]:
    """A client sends at-most-once tasks again when it loses its broker."""
    lost = [each for each in self._pending.values() if each.leg and leg in (0, each.leg) and each.is_kept]
    again = [each for each in lost if each.deadline_ns > now_ns]
    self._send_first(again + self._retries.take())
    return _on_lost(self, now_ns, leg)


@OF_SEVERAL_BROKERS.breaks(ClientSession, "_is_refusal", "client-repeats-doubtful", Invariant.DELIVERY)
def _any_rejection_or_doubt_goes_elsewhere(self: ClientSession, pending: Done) -> bool:
    """A client sends a task whose outcome is unknown to another broker."""
    if pending.outcome == "REJECTED" and isinstance(pending, Repeatable):
        return reasons.code_of(pending.reason) in (reasons.DISABLED, reasons.BROKER_LOST)
    return pending.outcome == "UNKNOWN" and pending.is_kept


@OF_SEVERAL_BROKERS.breaks(ClientSession, "on_lost", "second-rejection-believed", Invariant.DELIVERY)
def _second_rejection_is_believed(self: ClientSession, now_ns: int = 0, leg: int = 0) -> list[Done]:
    """A client believes the next broker that a task did not run, though it lost the one before."""
    ended = _on_lost(self, now_ns, leg)
    for pending in self._pending.values():
        if isinstance(pending, Repeatable):
            pending.may_have_run = False
    return ended


# -- rights -------------------------------------------------------------------------------------------------------


@OF_RIGHTS.breaks(Router, "_lacks", "rights-not-asked-for", Invariant.PERMISSION)
def _everybody_may(self: Router, principal: str, what: Literal["call", "serve"], services: list[str]) -> list[str]:
    """Whoever was let in may do anything."""
    return []


@OF_RIGHTS.breaks(Router, "_accept", "anybody-speaks-for-others", Invariant.PERMISSION)
def _anybody_speaks_for_others(
    self: Router, number: bytes, principal: str, fields: headers.Fields, task: headers.TaskRequest
) -> list[bytes]:
    """A task is that of whoever its header names, whether a broker says so or not."""
    if task.principal and not principal.startswith(inner.BROKER):
        principal, task = task.principal, replace(task, principal="", via=[])
    return _accept(self, number, principal, fields, task)


@OF_RIGHTS.breaks(Router, "_accept", "brokers-are-trusted", Invariant.REVOCATION)
def _brokers_are_trusted(
    self: Router, number: bytes, principal: str, fields: headers.Fields, task: headers.TaskRequest
) -> list[bytes]:
    """What another broker passes on may run, whoever it is for: that one has looked."""
    rights = self._book.rights
    if rights is None or task.principal not in rights:
        return _accept(self, number, principal, fields, task)
    its_own, rights[task.principal] = rights[task.principal], Rights(("*",))
    try:
        return _accept(self, number, principal, fields, task)
    finally:
        rights[task.principal] = its_own


@OF_RIGHTS.breaks(Sessions, "check_rights", "workers-stay", Invariant.REVOCATION)
def _workers_stay(self: Sessions, accounts: dict[bytes, Account]) -> None:
    """A worker that is connected goes on, whatever its principal may serve now."""


@OF_RIGHTS.breaks(Accounts, "update", "revoked-stays", Invariant.REVOCATION)
def _revoked_stays(self: Accounts, principals: inner.Principals) -> None:
    """Whoever was let in stays, though the config does not know it any more."""
    accounts = [account for account in self.by_peer.values() if not account.is_void]
    terms = {account.name.decode(): account.terms for account in accounts} | principals.terms
    _update(self, principals._replace(keys=self._names | principals.keys, terms=terms))


@OF_RIGHTS.breaks(Accounts, "_account_of", "replaced-keys-stay", Invariant.REVOCATION)
def _replaced_keys_stay(self: Accounts, key: bytes, name: bytes, bearers: Bearers) -> Account:
    """Whoever was let in may do what its principal may, though the key that it has shown is valid no more."""
    return self.of(name)


@OF_RIGHTS.breaks(Account, "follow", "flows-outlive-rights", Invariant.REVOCATION)
def _flows_outlive_rights(self: Account, terms: inner.PrincipalTerms, flows: FlowTable) -> None:
    """What a router decided about a header still counts when its principal has other rights."""
    _follow(self, terms, flows if self.is_void else self.flows)


@OF_RIGHTS.breaks(principals, "_keys", "one-key-at-a-time", Invariant.ACCESS)
def _first_keys(principals: dict[str, Principal]) -> Iterator[tuple[bytes, str]]:
    """Of two keys only the first one is valid: a rotation locks its principal out."""
    for name, principal in principals.items():
        yield bytes.fromhex(principal.public_keys[0]), name


@OF_RIGHTS.breaks(Task, "delegate_header", "forgets-whose", Invariant.ACCESS)
def _delegate_header_of_nobody(self: Task, now_ns: int, broker: bytes, token: bytes) -> bytes:
    """A task that is handed over does not say whose it is."""
    account, self.account = self.account, Account(b"")
    header = _delegate_header(self, now_ns, broker, token)
    self.account = account
    return header


@OF_KEYS.breaks(ByKey, "take", "key-is-ignored", Invariant.AFFINITY)
def _key_is_ignored(self: ByKey, key: int) -> Candidate | None:
    """A task goes to whoever has been free longest, whatever its key."""
    return LRU.take(self, key)
