"""Deliberately broken rules between brokers and clients. The simulation of several brokers has to catch them."""

from __future__ import annotations

from famulus.core.clock import NS_PER_MS
from famulus.core.dispatch.assignment import Assignment
from famulus.core.dispatch.delegates import HOPS_MAX, Delegate, Delegates
from famulus.core.dispatch.delegation import Delegation
from famulus.core.dispatch.repeats import Known, Repeats
from famulus.core.dispatch.task import RUNNING, Task
from famulus.core.session.client import ClientSession, Done, Repeatable
from famulus.lab.sim.invariants import Invariant
from famulus.lab.sim.mutants import Mutant
from famulus.wire import inner, reasons
from famulus.wire.headers import write_text

_on_lost = ClientSession.on_lost
_find = Delegates.find
_delegate = Assignment.delegate
_get = Repeats.get


def _delegate_header_without_past(self: Task, now_ns: int, broker: bytes, token: bytes) -> bytes:
    left_ms = max(1, (self.deadline_ns - now_ns) // NS_PER_MS)
    whose = self.flow.client_token or token
    end = b',"timeout_ms":%d,"via":[%b],"client_token":%b}' % (left_ms, write_text(broker.decode()), whose)
    return self.flow.worker_head + self.message_id + end


def _find_in_circles(self: Delegates, service: bytes, visited: tuple[bytes, ...]) -> Delegate | None:
    return _find(self, service, ()) if len(visited) + 1 < HOPS_MAX else None


def _find_for_ever(self: Delegates, service: bytes, visited: tuple[bytes, ...]) -> Delegate | None:
    best = [
        delegate
        for delegate in self.by_identity.values()
        if delegate.up and delegate.free.get(service, 0) > 0 and delegate.identity not in visited
    ]
    return best[0] if best else None


def _lost_peer_means_again(self: Delegation, delegate: Delegate) -> None:
    running, delegate.running = delegate.running, {}
    delegate.up = False
    for ticket, task in running.items():
        if task.waits_for(ticket):
            self._assignment.requeue(task)


def _lost_peer_is_waited_for(self: Delegation, delegate: Delegate) -> None:
    delegate.up = False


def _unknown_of_peer_means_again(self: Delegation, task: Task, tail: bytes) -> None:
    self.rejected(task, b"")


def _handed_over_is_not_started(self: Assignment, task: Task) -> bool:
    done = _delegate(self, task)
    if done:
        task.attempt -= 1
    return done


def _late_answer_counts(self: Delegation, identity: bytes, ticket: bytes, header: bytes, body: bytes) -> Task | None:
    delegate = self._delegates.by_identity.get(identity)
    task = delegate.running.pop(ticket, None) if delegate is not None else None
    if delegate is None or task is None:
        self._counters.late += 1
        return None
    self._delegates.give_back(delegate, task.service.name)
    if header == task.client_header(inner.TAIL_OK):
        self._counters.ok += 1
        if task.stage == RUNNING:
            self._outcomes._end(task, inner.TAIL_OK, body)
        else:
            self._outcomes._out.clients.append([task.client, task.envelope, header, body])
        return None
    return None


def _nothing_is_remembered(self: Repeats, known: Known, tail: bytes, body: bytes, now_ns: int) -> None:
    self.drop(known)


def _id_is_everybodys(self: Repeats, key: bytes, now_ns: int) -> Known | None:
    _, _, of_anybody = key.partition(b"\0")
    for each in (*self._open, *self._ended):
        if each.partition(b"\0")[2] == of_anybody:
            return _get(self, each, now_ns)
    return None


def _lost_client_sends_everything_again(self: ClientSession, now_ns: int = 0, leg: int = 0) -> list[Done]:
    lost = [each for each in self._pending.values() if each.leg and leg in (0, each.leg) and each.message]
    again = [each for each in lost if each.deadline_ns > now_ns]
    self._send_first(again + self._take_resting())
    return _on_lost(self, now_ns, leg)


def _second_rejection_is_believed(self: ClientSession, now_ns: int = 0, leg: int = 0) -> list[Done]:
    ended = _on_lost(self, now_ns, leg)
    for pending in self._pending.values():
        if isinstance(pending, Repeatable):
            pending.may_have_run = False
    return ended


def _any_rejection_or_doubt_goes_elsewhere(self: ClientSession, pending: Done) -> bool:
    if pending.outcome == "REJECTED" and isinstance(pending, Repeatable):
        return reasons.code_of(pending.reason) in (reasons.DISABLED, reasons.BROKER_LOST)
    return pending.outcome == "UNKNOWN" and bool(pending.message)


MUTANTS = {
    mutant.name: mutant
    for mutant in (
        Mutant(
            "ignores-via",
            "a task is handed over to a broker that it has come through",
            Delegates,
            "find",
            _find_in_circles,
            (Invariant.WAYS,),
        ),
        Mutant(
            "forgets-via",
            "a task that is handed over names only the last broker that it has come through",
            Task,
            "delegate_header",
            _delegate_header_without_past,
            (Invariant.WAYS,),
        ),
        Mutant(
            "no-hop-limit", "a task passes any number of brokers", Delegates, "find", _find_for_ever, (Invariant.WAYS,)
        ),
        Mutant(
            "lost-peer-again",
            "an at-most-once task goes to another worker or broker when the one that had it is lost",
            Delegation,
            "_lose",
            _lost_peer_means_again,
            (Invariant.DELIVERY,),
        ),
        Mutant(
            "lost-peer-waited-for",
            "what a lost peer had is waited for as if it were still there",
            Delegation,
            "_lose",
            _lost_peer_is_waited_for,
            (Invariant.PEERS,),
        ),
        Mutant(
            "peer-unknown-again",
            "a task whose outcome a peer does not know is taken for one that it rejected",
            Delegation,
            "unknown",
            _unknown_of_peer_means_again,
            (Invariant.DELIVERY,),
        ),
        Mutant(
            "handed-over-not-started",
            "a task that was handed over counts as one that nobody ever had",
            Assignment,
            "delegate",
            _handed_over_is_not_started,
            (Invariant.DELIVERY,),
        ),
        Mutant(
            "late-peer-counts",
            "the answer of a peer is passed on also when the task has its outcome already",
            Delegation,
            "answer",
            _late_answer_counts,
            (Invariant.ACCOUNTS,),
        ),
        Mutant(
            "no-memory",
            "a broker forgets how a task with an id of its own ended",
            Repeats,
            "end",
            _nothing_is_remembered,
            (Invariant.MEMORY,),
        ),
        Mutant(
            "ids-of-everybody",
            "a task is remembered by its id alone, whosever it is",
            Repeats,
            "get",
            _id_is_everybodys,
            (Invariant.MEMORY, Invariant.DELIVERY),
        ),
        Mutant(
            "client-repeats-all",
            "a client sends at-most-once tasks again when it loses its broker",
            ClientSession,
            "on_lost",
            _lost_client_sends_everything_again,
            (Invariant.DELIVERY,),
        ),
        Mutant(
            "client-repeats-doubtful",
            "a client sends a task whose outcome is unknown to another broker",
            ClientSession,
            "_is_refusal",
            _any_rejection_or_doubt_goes_elsewhere,
            (Invariant.DELIVERY,),
        ),
        Mutant(
            "second-rejection-believed",
            "a client believes the next broker that a task did not run, though it lost the one before",
            ClientSession,
            "on_lost",
            _second_rejection_is_believed,
            (Invariant.DELIVERY,),
        ),
    )
}
