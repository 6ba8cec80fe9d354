"""Cancelled tasks: gone if they wait; otherwise their worker is told, and has a moment to say what became of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.core.test_delegation_at_the_broker import Neighbour, meet

from famulus.core.clock import NS_PER_MS
from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch import cancels
from famulus.core.dispatch.cancels import ANSWER_NS, PAUSE_PER_TASK_NS, TASKS_PER_WISH
from famulus.wire import headers, limits

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Worker

    from famulus.core.dispatch.task import Task

ANSWER_MS = ANSWER_NS // NS_PER_MS
NOT_BEGUN: dict[str, Any] = {"outcome": "REJECTED", "reason": "cancelled: it was still waiting"}
STOPPED: dict[str, Any] = {"outcome": "UNKNOWN", "reason": "cancelled: it was stopped"}


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bob(broker: Broker) -> Worker:
    return broker.worker("bob", "echo", "again").starts()


def cancel(client: Client, envelope: bytes) -> None:
    client.sends(b"", headers.CANCEL, envelope)


def told_to_cancel(worker: Worker) -> bytes:
    """The ticket that the broker names."""
    message = worker.hears_one()
    assert (message.kind, message.fields["type"], message.envelope) == ("CANCEL", "REQUEST", b"")
    return message.body


# -- while it waits -----------------------------------------------------------------------------------------------


def test_a_task_that_waits_is_gone_at_once(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"1", b"e1")
    ann.asks("echo", b"2", b"e2")
    ann.asks("echo", b"3", b"e3")
    first = bob.gets_task()
    cancel(ann, b"e2")
    told = ann.hears_one()
    assert (told.envelope, told.fields["outcome"], told.code) == (b"e2", "REJECTED", "cancelled")
    bob.answers(first)
    assert bob.gets_task().body == b"3"
    assert broker.core.outcomes.open_tasks == 1


def test_a_second_cancel_and_one_of_nothing_change_nothing(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"1", b"e1")
    task = bob.gets_task()
    for envelope in (b"e1", b"e1", b"", b"nothing", b"e" * (limits.ENVELOPE_BYTES_MAX + 1)):
        cancel(ann, envelope)
    assert told_to_cancel(bob) == task.envelope
    assert ann.hears() == []
    bob.answers(task, b"done")
    assert ann.hears_outcome() == "OK"
    cancel(ann, b"e1")
    assert ann.hears() == bob.hears() == []
    assert broker.core.counters.faults == 0


def test_nobody_else_can_cancel_it(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"1", b"e1")
    ann.asks("echo", b"2", b"e2")
    bob.gets_task()
    eve = broker.client("eve")
    for envelope in (b"e1", b"e2"):
        cancel(eve, envelope)
    broker.later(1000, bob)
    assert ann.hears() == bob.hears() == eve.hears() == []


def test_any_other_way_to_write_it_goes_to_a_router(ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"1", b"e1")
    task = bob.gets_task()
    ann.sends(b"", b'{"type": "REQUEST", "request": "CANCEL", "why": "changed my mind"}', b"e1")
    assert told_to_cancel(bob) == task.envelope


def test_what_no_router_has_read_yet_is_cancelled_too(broker: Broker, ann: Client, bob: Worker) -> None:
    broker.routers_answer = False
    ann.asks("echo", b"1", b"e1")
    cancel(ann, b"e1")
    ann.asks("echo", b"2", b"e2")
    broker.decide()
    assert ann.hears_outcome() == "REJECTED cancelled"
    assert bob.gets_task().body == b"2"
    assert broker.core.counters.rejected == 1
    assert broker.core.outcomes.open_tasks == 1


def test_a_later_task_with_the_same_envelope_is_another_one(broker: Broker, ann: Client, bob: Worker) -> None:
    broker.routers_answer = False
    ann.sends(b"", headers.CANCEL + b" ", b"e1")
    broker.later(10)
    ann.asks("echo", b"1", b"e1")
    broker.decide()
    broker.decide()
    assert bob.gets_task().body == b"1"
    assert ann.hears() == bob.hears() == []


# -- while it runs ------------------------------------------------------------------------------------------------


def test_the_worker_may_say_that_it_had_not_begun(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", envelope=b"e1")
    task = bob.gets_task()
    cancel(ann, b"e1")
    told_to_cancel(bob)
    bob.answers(task, **NOT_BEGUN)
    answer = ann.hears_one()
    assert (answer.fields["outcome"], answer.fields["reason"]) == ("REJECTED", NOT_BEGUN["reason"])
    ann.asks("echo", b"next")
    assert bob.gets_task().body == b"next", "the slot is free again"


def test_in_the_journal_it_is_as_if_the_worker_had_never_had_it(
    broker: Broker, ann: Client, bob: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise an audit would find a task that was rejected and ran."""
    rows: list[tuple[object, ...]] = []
    facts = broker.core.facts
    monkeypatch.setattr(facts, "on", True)
    monkeypatch.setattr(facts, "_task", lambda *row: rows.append(row))
    ann.asks("echo", envelope=b"e1")
    task = bob.gets_task()
    cancel(ann, b"e1")
    told_to_cancel(bob)
    bob.answers(task, **NOT_BEGUN)
    ((ticket, _, attempt, _, worker, *_),) = rows
    assert (attempt, worker) == (0, b"")
    assert ticket != task.envelope


def test_the_worker_may_say_that_it_has_stopped_it(ann: Client, bob: Worker) -> None:
    ann.asks("echo", envelope=b"e1")
    task = bob.gets_task()
    cancel(ann, b"e1")
    told_to_cancel(bob)
    bob.answers(task, **STOPPED)
    answer = ann.hears_one()
    assert (answer.fields["outcome"], answer.fields["reason"]) == ("UNKNOWN", STOPPED["reason"])
    ann.asks("echo", b"next")
    assert bob.gets_task().body == b"next"


@pytest.mark.parametrize("outcome", ["OK", "ERROR"])
def test_it_may_just_have_ended(ann: Client, bob: Worker, outcome: str) -> None:
    ann.asks("echo", envelope=b"e1")
    task = bob.gets_task()
    cancel(ann, b"e1")
    told_to_cancel(bob)
    bob.answers(task, b"x", outcome=outcome, reason="ValueError")
    assert ann.hears_one().fields["outcome"] == outcome


def test_a_worker_that_says_nothing_is_not_waited_for(broker: Broker, ann: Client, bob: Worker) -> None:
    """It may not know what CANCEL is, or have a thread that nothing can stop: then its slot stays taken."""
    ann.asks("echo", envelope=b"e1")
    task = bob.gets_task()
    cancel(ann, b"e1")
    told_to_cancel(bob)
    broker.later(ANSWER_MS - 100, bob)
    assert ann.hears() == []
    broker.later(120, bob)
    assert ann.hears_outcome() == "UNKNOWN cancelled"
    ann.asks("echo", b"next")
    assert bob.hears() == []
    bob.answers(task)
    assert bob.gets_task().body == b"next"
    assert broker.core.counters.late == 1


def test_its_deadline_is_no_later_for_that(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", envelope=b"e1", timeout_ms=200)
    bob.gets_task()
    cancel(ann, b"e1")
    broker.later(220, bob)
    assert ann.hears_outcome() == "UNKNOWN cancelled"


@pytest.mark.parametrize("said", [NOT_BEGUN, STOPPED])
def test_a_worker_cannot_give_up_what_nobody_has_cancelled(ann: Client, bob: Worker, said: dict[str, Any]) -> None:
    ann.asks("again", envelope=b"e1")
    bob.answers(bob.gets_task(), **said)
    assert ann.hears_outcome() == "UNKNOWN bad_header"


@pytest.mark.parametrize("outcome", ["REJECTED", "UNKNOWN"])
def test_a_worker_cannot_reject_for_any_other_reason(broker: Broker, ann: Client, bob: Worker, outcome: str) -> None:
    ann.asks("echo", envelope=b"e1")
    task = bob.gets_task()
    cancel(ann, b"e1")
    told_to_cancel(bob)
    bob.answers(task, outcome=outcome, reason="overload: no")
    assert ann.hears_outcome() == "UNKNOWN bad_header"
    assert broker.core.counters.faults == 1


def test_what_a_worker_says_too_late_is_late(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", envelope=b"e1")
    task = bob.gets_task()
    cancel(ann, b"e1")
    told_to_cancel(bob)
    broker.routers_answer = False
    bob.answers(task, **NOT_BEGUN)
    broker.later(ANSWER_MS + 20)
    assert ann.hears_outcome() == "UNKNOWN cancelled"
    broker.decide()
    assert ann.hears() == []
    assert broker.core.counters.late == 1


# -- it is not tried again ----------------------------------------------------------------------------------------


def test_it_is_not_tried_again_when_its_worker_is_lost(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("again", envelope=b"e1")
    bob.gets_task()
    cancel(ann, b"e1")
    joe = broker.worker("joe", "again").starts()
    broker.core.sessions.gone([bob.peer])
    broker.settle()
    assert ann.hears_outcome() == "UNKNOWN cancelled"
    assert joe.hears() == []


def test_a_task_that_waits_for_its_second_attempt_may_have_run(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("again", envelope=b"e1")
    bob.gets_task()
    broker.core.sessions.gone([bob.peer])
    broker.settle()
    cancel(ann, b"e1")
    assert ann.hears_outcome() == "UNKNOWN cancelled"


def test_in_a_second_attempt_not_begun_says_nothing_about_the_first(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("again", envelope=b"e1")
    bob.gets_task()
    joe = broker.worker("joe", "again").starts()
    broker.core.sessions.gone([bob.peer])
    broker.settle()
    task = joe.gets_task()
    cancel(ann, b"e1")
    told_to_cancel(joe)
    joe.answers(task, **NOT_BEGUN)
    assert ann.hears_outcome() == "UNKNOWN cancelled"


def test_what_did_not_leave_did_not_run(broker: Broker, ann: Client, bob: Worker) -> None:
    """The connection refuses both the task and its cancel: the task is given to nobody else."""
    ann.asks("echo")
    bob.answers(bob.gets_task())
    ann.hears()
    joe = broker.worker("joe", "echo")
    bob.gone = True
    task = headers.write("TASK", "REQUEST", service="echo")
    broker.core.on_clients([[ann.peer, b"e1", task, b""], [ann.peer, b"", headers.CANCEL, b"e1"]])
    broker.settle()
    assert ann.hears_outcome() == "REJECTED cancelled"
    joe.starts()


# -- several who asked for it -------------------------------------------------------------------------------------


def test_it_goes_on_for_those_who_asked_for_it_too(ann: Client, bob: Worker) -> None:
    for envelope in (b"e1", b"e2", b"e3"):
        ann.asks("echo", envelope=envelope, message_id="mine")
    task = bob.gets_task()
    cancel(ann, b"e1")
    cancel(ann, b"e3")
    assert [(heard.envelope, heard.fields["outcome"], heard.code) for heard in ann.hears()] == [
        (b"e1", "UNKNOWN", "cancelled"),
        (b"e3", "UNKNOWN", "cancelled"),
    ]
    assert bob.hears() == []
    bob.answers(task, b"done")
    assert [(heard.envelope, heard.body) for heard in ann.hears()] == [(b"e2", b"done")]


def test_when_the_last_of_them_cancels_it_is_cancelled(ann: Client, bob: Worker) -> None:
    for envelope in (b"e1", b"e2"):
        ann.asks("echo", envelope=envelope, message_id="mine")
    task = bob.gets_task()
    cancel(ann, b"e1")
    cancel(ann, b"e2")
    assert told_to_cancel(bob) == task.envelope
    bob.answers(task, **NOT_BEGUN)
    assert [heard.fields["outcome"] for heard in ann.hears()] == ["UNKNOWN", "REJECTED"]
    ann.asks("echo", b"anew", message_id="mine")
    assert bob.gets_task().body == b"anew", "what did not run is not remembered"


def test_who_asks_again_and_cancels_before_a_router_has_read_it_waits_no_more(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    ann.asks("echo", envelope=b"e1", message_id="mine")
    task = bob.gets_task()
    broker.routers_answer = False
    ann.asks("echo", envelope=b"e2", message_id="mine")
    cancel(ann, b"e2")
    broker.decide()
    assert ann.hears_outcome() == "UNKNOWN cancelled"
    bob.answers(task)
    assert ann.hears_one().envelope == b"e1"


# -- at another broker --------------------------------------------------------------------------------------------


@pytest.fixture
def bee(broker: Broker) -> Neighbour:
    bee = Neighbour(broker, "bee", echo=2, again=2)
    meet(broker, bee)
    return bee


@pytest.mark.parametrize(("outcome", "service"), [("REJECTED", "echo"), ("REJECTED", "again"), ("UNKNOWN", "again")])
def test_a_task_that_another_broker_has_is_cancelled_there(
    broker: Broker, ann: Client, bee: Neighbour, outcome: str, service: str
) -> None:
    ann.asks(service, envelope=b"e1")
    task = bee.gets()
    cancel(ann, b"e1")
    assert bee.gets() == [b"", headers.CANCEL, task[0]]
    bee.answers(task, outcome=outcome, reason="cancelled: over there")
    assert ann.hears_outcome() == f"{outcome} cancelled"
    assert bee.hears() == [], "and it is not given to anybody else"


def test_another_broker_that_says_nothing_is_not_waited_for(broker: Broker, ann: Client, bee: Neighbour) -> None:
    ann.asks("echo", envelope=b"e1")
    bee.hears()
    cancel(ann, b"e1")
    bee.says(b"", headers.write_error("unknown_request", "what is a CANCEL?"))  # it is older than we are
    broker.later(ANSWER_MS + 20)
    assert ann.hears_outcome() == "UNKNOWN cancelled"


# -- clients that are gone ----------------------------------------------------------------------------------------


@pytest.fixture
def abandoning(broker_with: Callable[..., Broker]) -> Broker:
    return broker_with(echo=ServicePolicy(abandon="cancel"))


def test_tasks_of_a_lost_client_end_where_the_service_says_so(abandoning: Broker) -> None:
    broker = abandoning
    ann, eve = broker.client("ann"), broker.client("eve")
    bob = broker.worker("bob", "echo").starts()
    for client in (ann, ann, eve):
        client.asks("echo")
    task = bob.gets_task()
    broker.core.on_clients_gone([ann.peer])
    broker.settle()
    assert told_to_cancel(bob) == task.envelope
    bob.answers(task, **STOPPED)
    bob.gets_task()
    assert broker.core.outcomes.open_tasks == 1
    assert broker.core.counters.rejected == broker.core.counters.unknown == 1


def test_other_tasks_of_a_lost_client_are_finished(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo")
    bob.gets_task()
    broker.core.on_clients_gone([ann.peer])
    broker.settle()
    assert bob.hears() == []
    assert not broker.core.cancels


def test_a_task_goes_on_while_somebody_who_asked_for_it_is_there(abandoning: Broker) -> None:
    broker = abandoning
    bob = broker.worker("bob", "echo").starts()
    here, back = broker.client("before"), broker.client("after")
    for client in (here, back):
        client.asks("echo", message_id="mine", client_token="its own and secret")
    task = bob.gets_task()
    broker.core.on_clients_gone([here.peer])
    broker.settle()
    assert bob.hears() == []
    bob.answers(task, b"done")
    assert back.hears_outcome() == "OK"


# -- bounds -------------------------------------------------------------------------------------------------------


def test_wishes_without_end_do_not_make_us_look_without_end(
    broker: Broker, bob: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[int] = []
    find = cancels.Cancels._find

    def counted(self: cancels.Cancels, tasks: Iterable[Task]) -> object:
        looks.append(1)
        return find(self, tasks)

    monkeypatch.setattr(cancels.Cancels, "_find", counted)
    ann, eve = broker.client("ann"), broker.client("eve")
    tasks = 1000
    for number in range(tasks):
        ann.asks("again", envelope=b"%d" % number)
    for number in range(10 * tasks):
        cancel(eve, b"%d" % number)
    assert len(looks) <= 2 + 10 * TASKS_PER_WISH
    cancel(ann, b"7")
    broker.later(2 * tasks * PAUSE_PER_TASK_NS / NS_PER_MS)
    assert [heard.envelope for heard in ann.hears()] == [b"7"]
    assert not broker.core.cancels
