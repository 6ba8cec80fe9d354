"""Deliberately broken copies of the core. The simulation is only worth something if it catches them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import MethodDescriptorType
from typing import Any

from famulus.core.dispatch.assignment import Assignment
from famulus.core.dispatch.decisions import Decisions
from famulus.core.dispatch.outcomes import Outcomes
from famulus.core.dispatch.question import Question
from famulus.core.dispatch.questions import Questions
from famulus.core.dispatch.service_time import ServiceTime
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.sessions import Sessions
from famulus.core.dispatch.task import JUDGING, Task
from famulus.lab.sim.invariants import Invariant
from famulus.wire import inner


@dataclass(frozen=True, slots=True)
class Mutant:
    """One method, replaced by a wrong one."""

    name: str
    what: str
    owner: type
    method: str
    wrong: Any
    #: What has to notice. If the wrong method fails in another way, that says nothing about the invariants.
    caught_by: tuple[Invariant, ...]

    @contextmanager
    def in_place(self) -> Iterator[None]:
        if isinstance(getattr(self.owner, self.method), MethodDescriptorType):
            # It could be replaced, but its compiled callers would not notice.
            raise RuntimeError("a compiled core cannot be broken; FAMULUS_CORE=python runs its source")
        right = getattr(self.owner, self.method)
        setattr(self.owner, self.method, self.wrong)
        try:
            yield
        finally:
            setattr(self.owner, self.method, right)


def _late_answer_keeps_slot(self: Assignment, session: Session, ticket: bytes, body_bytes: int) -> Task | None:
    task = session.running.pop(ticket)
    if not task.waits_for(ticket):
        self._counters.late += 1
        self._facts.late(task, ticket, session.identity, b"", self._now.ns, body_bytes)
        return None
    self._free_slot(session)
    task.stage = JUDGING
    return task


def _always_again(self: Assignment, task: Task) -> None:
    if task.attempt < task.terms.attempts_max and self._now.ns < task.deadline_ns:
        self.requeue(task)
    else:
        self._outcomes.unknown(task, inner.UNKNOWN_WORKER_LOST)


def _lost_router_takes_questions_along(self: Questions, router_id: bytes) -> None:
    router = self._routers.pop(router_id, None)
    for question in router.asked.values() if router is not None else ():
        del self._open[question.number]
        self.held_bytes -= len(question.header) + len(question.body)


def _last_answer_wins(self: Assignment, task: Task, outcome: bytes, tail: bytes, body: bytes) -> None:
    self._counters.ok += 1
    self._out.clients.append([task.client, task.envelope, task.client_header(tail), body])
    if task.stage == JUDGING:
        self._outcomes._end(task, tail, body)
        self._out.clients.pop()


def _enters_with_config(self: Decisions, question: Question, decision: list[bytes]) -> None:
    _, _, identity, terms, names, header, body, token = decision
    if not self._sessions.connect(
        question.asker, identity, inner.read_names(names), inner.read_session_terms(terms), token
    ):
        self._assignment.enter(self._sessions.by_peer[question.asker], self._now.ns)
        self._reply(question, header, body)


def _newer_is_believed(self: Sessions, peer: bytes, identity: bytes, token: bytes) -> None:
    return None


def _started_task_is_rejected(self: Outcomes, task: Task, rejection: bytes, unknown: bytes) -> None:
    self.reject(task, rejection)


def _nobody_learns(self: ServiceTime, duration_ns: int, now_ns: int) -> None:
    pass


def _all_may_wait(self: ServiceTime, ahead: int, slots: int) -> int:
    return 0


def _any_time_will_do(self: ServiceTime, timeout_ns: int) -> int:
    return 0


MUTANTS = {
    mutant.name: mutant
    for mutant in (
        Mutant(
            "late-answer-keeps-slot",
            "the slot is not given back when an answer comes after the deadline",
            Assignment,
            "ticket_back",
            _late_answer_keeps_slot,
            (Invariant.SLOTS,),
        ),
        Mutant(
            "always-again",
            "an at-most-once task is given to another worker when its own is lost",
            Assignment,
            "again_or_unknown",
            _always_again,
            (Invariant.DELIVERY,),
        ),
        Mutant(
            "router-takes-questions-along",
            "what a lost router had not decided is not asked again",
            Questions,
            "router_gone",
            _lost_router_takes_questions_along,
            (Invariant.ACCOUNTS,),
        ),
        Mutant(
            "last-answer-wins",
            "an answer that was read after the deadline is passed on all the same",
            Assignment,
            "answer",
            _last_answer_wins,
            (Invariant.ACCOUNTS,),
        ),
        Mutant(
            "enters-with-config",
            "a worker enters the LRU with its CONFIG, before its first PONG",
            Decisions,
            "_on_connect",
            _enters_with_config,
            (Invariant.SLOTS, Invariant.NOTHING_LEFT),
        ),
        Mutant(
            "newer-believed",
            "a worker that connects gets its name, whoever has it",
            Sessions,
            "holder",
            _newer_is_believed,
            (Invariant.NAMES,),
        ),
        Mutant(
            "started-task-rejected",
            "a task that waits for its second attempt is rejected as if it had never run",
            Outcomes,
            "unstarted",
            _started_task_is_rejected,
            (Invariant.DELIVERY,),
        ),
    )
}

#: Of the worlds in which there is too much to do.
OF_OVERLOAD = {
    mutant.name: mutant
    for mutant in (
        Mutant(
            "nobody-learns",
            "how long tasks take is not noted: they wait and are given out until their time is over",
            ServiceTime,
            "add",
            _nobody_learns,
            (Invariant.GOODPUT, Invariant.IN_VAIN),
        ),
        Mutant(
            "all-may-wait",
            "a task joins the backlog however long that will take",
            ServiceTime,
            "wait_ns",
            _all_may_wait,
            (Invariant.PROMPTNESS,),
        ),
        Mutant(
            "any-time-will-do",
            "a task that waited is given out with whatever time it has left",
            ServiceTime,
            "needed_ns",
            _any_time_will_do,
            (Invariant.GOODPUT, Invariant.IN_VAIN),
        ),
    )
}
