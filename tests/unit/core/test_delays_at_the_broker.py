"""Tasks that wait for their time: never given out before it, and then as if they had just arrived."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.unit.core.test_delegation_at_the_broker import Neighbour, meet
from tests.unit.core.test_principals_at_the_broker import Config

from famulus.core.clock import NS_PER_MS
from famulus.core.delivery import ServicePolicy
from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.delays import SETTLED_NS
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.dispatch.facts import DELAYED_AGAIN_S
from famulus.core.dispatch.task import DELAYED
from famulus.core.rights import Rights
from famulus.core.timers import TICK_NS
from famulus.journal import fates
from famulus.wire import headers, inner, limits
from famulus.wire.rows import LAYOUTS, Row

if TYPE_CHECKING:
    from tests.unit.core.conftest import Broker, Client, Worker

TICK_MS = TICK_NS // NS_PER_MS


@pytest.fixture
def ann(broker: Broker) -> Client:
    return broker.client("ann")


@pytest.fixture
def bob(broker: Broker) -> Worker:
    return broker.worker("bob", "echo", "again", slots=2).starts()


def nothing_is_left(broker: Broker) -> bool:
    outcomes = broker.core.outcomes
    delayed = [service.delayed for service in broker.core.services.by_name.values()]
    return outcomes.open_tasks == outcomes.open_bytes == sum(each.tasks + each.body_bytes for each in delayed) == 0


# -- its time -----------------------------------------------------------------------------------------------------


def test_it_is_given_out_when_its_time_has_come_and_not_before(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"later", delay_ms=3000, timeout_ms=1000)
    broker.later(2999, bob)
    assert bob.hears() == ann.hears() == []
    broker.later(1 + TICK_MS, bob)
    task = bob.gets_task()
    assert (task.body, task.fields["timeout_ms"]) == (b"later", 1000), "its time-out begins now"
    assert "delay_ms" not in task.fields
    broker.later(900, bob)
    bob.answers(task, b"done")
    assert ann.hears_outcome() == "OK"
    assert nothing_is_left(broker)


def test_the_delay_counts_from_the_moment_at_which_the_message_was_read(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    broker.routers_answer = False
    ann.asks("echo", delay_ms=1000)
    broker.later(600, bob)
    broker.decide()
    broker.routers_answer = True
    broker.later(400 + TICK_MS, bob)
    bob.gets_task()


def test_one_whose_time_came_before_a_router_had_read_it_runs_at_once(broker: Broker, ann: Client, bob: Worker) -> None:
    broker.routers_answer = False
    ann.asks("echo", delay_ms=100)
    broker.later(600, bob)
    broker.decide()
    broker.later(1, bob)
    bob.gets_task()


def test_its_deadline_comes_after_its_delay(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", delay_ms=3000, timeout_ms=1000)
    broker.later(3000 + TICK_MS, bob)
    bob.gets_task()
    broker.later(999 - 2 * TICK_MS, bob)
    assert ann.hears() == []
    broker.later(3 * TICK_MS, bob)
    assert ann.hears_outcome() == "UNKNOWN expired"


def test_if_the_broker_was_late_it_has_its_whole_time_out_all_the_same(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    ann.asks("echo", delay_ms=3010, timeout_ms=1000)
    broker.later(3500, bob)  # time goes by in steps of half a second here
    bob.gets_task()
    broker.later(800, bob)
    assert ann.hears() == []
    broker.later(300, bob)
    assert ann.hears_outcome() == "UNKNOWN expired"


def test_others_are_not_held_up(ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"later", delay_ms=3000)
    ann.asks("echo", b"now")
    assert bob.gets_task().body == b"now"


def test_a_header_with_a_delay_is_not_remembered(broker: Broker, ann: Client, bob: Worker) -> None:
    for _ in range(2):
        ann.asks("echo", delay_ms=1000)
    assert (broker.core.counters.by_flow, len(broker.core.flows)) == (0, 0)
    assert not broker.core.repeats._known, "its id is not its client's own"
    ann.asks("echo", delay_ms=0)
    assert len(broker.core.flows) == 1, "that is no delay"
    for delay_ms in range(1, 6000, 50):
        ann.asks("again", delay_ms=delay_ms)
    assert len(broker.core.terms) == 1


@pytest.mark.parametrize("delay_ms", [-1, limits.DELAY_MS_MAX + 1, 1.5, "1", None])
def test_what_is_no_delay_is_a_bad_header(broker: Broker, ann: Client, bob: Worker, delay_ms: object) -> None:
    header = headers.write_fields({"request": "TASK", "type": "REQUEST", "service": "echo", "delay_ms": delay_ms})
    ann.sends(b"", header, b"")
    assert (answer := ann.hears_one()).kind == "ERROR"
    assert answer.code == "bad_header"
    assert bob.hears() == []


def test_the_longest_delay_is_an_hour(broker: Broker, ann: Client) -> None:
    ann.asks("echo", delay_ms=limits.DELAY_MS_MAX)
    assert ann.hears() == []
    assert broker.core.next_due_ns <= broker.now_ns + limits.DELAY_MS_MAX * NS_PER_MS


# -- when its time has come ---------------------------------------------------------------------------------------


def test_then_it_waits_for_a_slot_like_all_others(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"later", delay_ms=1000)
    broker.later(500, bob)
    ann.asks("echo", b"1")
    ann.asks("echo", b"2")
    ann.asks("echo", b"3")
    running = bob.hears()
    broker.later(500 + TICK_MS, bob)
    assert bob.hears() == ann.hears() == []
    for task, following in zip(running, (b"3", b"later"), strict=True):
        bob.answers(task)
        assert bob.gets_task().body == following, "whoever came first is first"


def test_then_a_full_backlog_has_no_room_for_it(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", envelope=b"later", delay_ms=1000)
    for _ in range(5):
        ann.asks("echo")
    broker.later(1000 + TICK_MS, bob)
    assert ann.hears_outcome() == "REJECTED overload"


def test_then_nobody_may_offer_its_service_any_more(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(services_max=3))
    ann = broker.client("ann")
    dan = broker.worker("dan", "rare").starts()
    ann.asks("rare", delay_ms=1000)
    dan.says("DISCONNECT")
    dan.hears()
    service = broker.core.services.by_name[b"rare"]
    broker.core.services._forget(1)
    assert broker.core.services.by_name[b"rare"] is service, "somebody waits for it"
    del broker.core.services.by_name[b"rare"]
    broker.later(1000 + TICK_MS)
    assert ann.hears_outcome() == "REJECTED no_service"
    assert nothing_is_left(broker)


def test_a_service_that_nobody_knows_is_refused_when_the_task_comes(ann: Client) -> None:
    ann.asks("nobody", delay_ms=1000)
    assert ann.hears_outcome() == "REJECTED no_service"


def test_then_it_goes_to_another_broker_without_its_delay(broker: Broker, ann: Client) -> None:
    other = Neighbour(broker, "other", echo=1)
    meet(broker, other)
    ann.asks("echo", b"later", delay_ms=1000, timeout_ms=2000)
    assert other.hears() == [], "it is held here"
    broker.later(1000 + TICK_MS)
    message = other.gets()
    fields = headers.read_fields(message[1])
    assert "delay_ms" not in fields
    assert (fields["timeout_ms"], message[2]) == (2000, b"later")
    other.answers(message, b"done")
    assert ann.hears_outcome() == "OK"


def test_a_lost_worker_is_another_attempt_without_a_delay(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("again", b"later", delay_ms=1000)
    broker.later(1000 + TICK_MS, bob)
    bob.gets_task()
    eve = broker.worker("eve", "again").starts()
    bob.gone = True
    broker.core.sessions.gone([bob.peer])
    broker.settle()
    assert eve.gets_task().fields["attempt"] == 2


# -- bounds -------------------------------------------------------------------------------------------------------


def test_as_many_may_be_delayed_as_may_wait_in_the_backlog(broker: Broker, ann: Client, bob: Worker) -> None:
    for _ in range(3):
        ann.asks("echo", delay_ms=1000)
    assert ann.hears() == []
    ann.asks("echo", delay_ms=1000)
    answer = ann.hears_one()
    assert answer.fields["reason"] in inner.REJECTED_TOO_MANY_DELAYED.decode()
    ann.asks("echo", b"now")
    assert bob.gets_task().body == b"now", "they take no room from others"
    ann.asks("again", delay_ms=1000)
    assert ann.hears() == []


def test_nor_more_bytes(broker: Broker, ann: Client) -> None:
    ann.asks("echo", bytes(60), delay_ms=1000)
    ann.asks("echo", bytes(41), delay_ms=1000)
    assert ann.hears_outcome() == "REJECTED overload"
    assert broker.core.outcomes.open_bytes == 60


def test_they_are_open_tasks_of_the_broker(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(Bounds(open_tasks_max=2, open_bytes_max=1 << 20))
    ann = broker.client("ann")
    ann.asks("echo", delay_ms=1000)
    ann.asks("again", delay_ms=1000)
    ann.asks("again", delay_ms=1000)
    assert ann.hears_outcome() == "REJECTED overload"
    assert broker.core.outcomes.open_tasks == 2


def test_there_is_room_again_when_their_time_has_come(broker: Broker, ann: Client, bob: Worker) -> None:
    for _ in range(3):
        ann.asks("echo", b"x", delay_ms=1000)
    broker.later(1000 + TICK_MS, bob)
    for task in bob.hears():
        bob.answers(task)
    bob.answers(bob.gets_task())
    assert [answer.fields["outcome"] for answer in ann.hears()] == ["OK"] * 3
    assert nothing_is_left(broker)


# -- the end before its time --------------------------------------------------------------------------------------


def test_a_cancelled_one_is_gone_at_once(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"1", b"e1", delay_ms=1000)
    ann.asks("echo", b"2", b"e2", delay_ms=1000)
    ann.sends(b"", headers.CANCEL, b"e1")
    assert ann.hears_outcome() == "REJECTED cancelled"
    broker.later(1000 + TICK_MS, bob)
    assert bob.gets_task().body == b"2"


def test_a_cancel_that_waits_for_a_look_is_not_forgotten_when_its_time_comes(
    broker: Broker, ann: Client, bob: Worker
) -> None:
    """From then on it is a new task, and what was said before is about an older one."""
    ann.asks("echo", b"1", b"e1", delay_ms=1000)
    broker.later(990, bob)
    broker.core.cancels._rests_until_ns = broker.now_ns + 100 * NS_PER_MS
    broker.core.cancels._looked = 1000
    ann.sends(b"", headers.CANCEL, b"e1")
    assert ann.hears() == []
    broker.later(10 + TICK_MS, bob)
    assert ann.hears_outcome() == "REJECTED cancelled"
    assert bob.hears() == []
    assert nothing_is_left(broker)


def test_one_whose_client_is_gone_is_cancelled_where_the_service_says_so(broker_with: Callable[..., Broker]) -> None:
    broker = broker_with(rare=ServicePolicy(abandon="cancel"))
    ann, bob = broker.client("ann"), broker.worker("bob", "rare", "echo").starts()
    ann.asks("rare", delay_ms=1000)
    ann.asks("echo", b"goes on", delay_ms=1000)
    broker.core.on_clients_gone([ann.peer])
    broker.settle()
    broker.later(1000 + TICK_MS, bob)
    assert bob.gets_task().body == b"goes on"


def test_a_broker_that_stops_gives_them_back_at_once(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"runs", b"e0")
    task = bob.gets_task()
    ann.asks("echo", b"later", b"e1", delay_ms=60_000)
    broker.core.drain(10_000 * NS_PER_MS)
    broker.settle()
    answer = ann.hears_one()
    assert (answer.envelope, answer.fields["outcome"], answer.code) == (b"e1", "REJECTED", "disabled")
    ann.asks("echo", b"too late", delay_ms=1000)
    assert ann.hears_outcome() == "REJECTED disabled"
    bob.answers(task)
    assert broker.core.drained()


# -- asked for again ----------------------------------------------------------------------------------------------


def test_who_asks_again_by_its_id_waits_for_the_same_task(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"1", b"e1", message_id="mine", delay_ms=1000)
    broker.later(500, bob)
    ann.asks("echo", b"1", b"e2", message_id="mine", delay_ms=500)
    broker.later(500 + TICK_MS, bob)
    bob.answers(bob.gets_task(), b"answer")
    assert [(heard.envelope, heard.body) for heard in ann.hears()] == [(b"e1", b"answer"), (b"e2", b"answer")]
    ann.asks("echo", b"1", b"e3", message_id="mine", delay_ms=1000)
    assert ann.hears_one().body == b"answer", "it has run, and is told again at once"


def test_if_one_of_them_cancels_it_waits_for_the_other(broker: Broker, ann: Client, bob: Worker) -> None:
    ann.asks("echo", b"1", b"e1", message_id="mine", delay_ms=1000)
    ann.asks("echo", b"1", b"e2", message_id="mine", delay_ms=1000)
    ann.sends(b"", headers.CANCEL, b"e1")
    assert ann.hears_outcome() == "UNKNOWN cancelled"
    broker.later(1000 + TICK_MS, bob)
    bob.answers(bob.gets_task())
    assert (answer := ann.hears_one()).envelope == b"e2"
    assert answer.fields["outcome"] == "OK"


# -- rights -------------------------------------------------------------------------------------------------------


def settled(broker: Broker) -> Config:
    """Somebody may call something, and has been allowed to for a while."""
    config = Config(broker)
    broker.later(SETTLED_NS // NS_PER_MS)
    return config


def test_who_may_call_the_same_as_before_gets_what_was_put_off(broker: Broker) -> None:
    config = settled(broker)
    ann, bob = config.client("ann"), config.worker("bob").starts()
    ann.asks("echo", b"later", delay_ms=1000)
    config.put(eve=Rights(call=("*",)))
    config.limit("ann", open_tasks=10)
    broker.later(1000 + TICK_MS, bob)
    assert bob.gets_task().body == b"later"


def test_if_rights_have_changed_its_client_has_to_ask_again(broker: Broker) -> None:
    """A right may be taken away within an hour; whether that one was, only a router can tell."""
    config = settled(broker)
    ann, bob = config.client("ann"), config.worker("bob").starts()
    for envelope in (b"e1", b"e2"):
        ann.asks("echo", envelope=envelope, delay_ms=1000)
    config.put(ann=Rights(call=("img.*",)))
    broker.later(1000 + TICK_MS, bob)
    assert bob.hears() == []
    assert [(answer.fields["outcome"], answer.code) for answer in ann.hears()] == [("REJECTED", "disabled")] * 2
    assert nothing_is_left(broker)
    assert not broker.core.delays._rights
    ann.asks("echo")
    assert ann.hears_outcome() == "REJECTED not_allowed"


def test_what_came_while_routers_may_have_known_other_rights_is_asked_for_again_too(broker: Broker) -> None:
    config = settled(broker)
    ann = config.client("ann")
    config.worker("bob").starts()
    config.put(ann=Rights(call=("*",)))
    ann.asks("echo", delay_ms=1000)
    broker.later(1000 + TICK_MS)
    assert ann.hears_outcome() == "REJECTED disabled"


def test_a_key_that_is_void_by_then_gets_nothing(broker: Broker) -> None:
    config = settled(broker)
    ann, bob = config.client("ann"), config.worker("bob").starts()
    ann.asks("echo", delay_ms=1000)
    config.replace_key("ann")
    broker.later(1000 + TICK_MS, bob)
    assert ann.hears_outcome() == "REJECTED not_allowed"
    assert bob.hears() == []


# -- the journal --------------------------------------------------------------------------------------------------


def test_the_journal_knows_when_it_came_and_does_not_take_its_delay_for_waiting(
    broker_with: Callable[..., Broker],
) -> None:
    broker, rows = broker_with(), defaultdict(list)

    def take(table: str, *values: object) -> None:
        rows[table].append(dict(zip([name for name, _ in LAYOUTS[table]], values, strict=True)))

    class Journal:
        task = staticmethod(partial(take, "tasks"))
        open_task = staticmethod(partial(take, "open_tasks"))

        def note(self, row: Row) -> None:
            pass

    broker.core = Dispatcher(broker.core.bounds, 0, list(broker.core.services.by_name), journal=Journal())
    broker.router()
    ann, bob = broker.client("ann"), broker.worker("bob").starts()
    came_ns = broker.now_ns
    ann.asks("echo", delay_ms=1000)
    ann.asks("echo", envelope=b"e2", delay_ms=1000)
    seen: dict[str, Any] = rows["open_tasks"][0]
    assert (seen["state"], seen["arrived"], seen["at"], seen["ticket"]) == (b"delayed", came_ns, came_ns, b"")
    list(broker.core.checkpoint({}))
    assert len(rows["open_tasks"]) == 2, "it has been seen"
    broker.later(500, bob)
    ann.sends(b"", headers.CANCEL, b"e2")
    ended = rows["tasks"].pop()
    assert ended["arrived"] == ended["ended"] == broker.now_ns, "nobody had to wait for it"
    broker.later(500 + TICK_MS, bob)
    due_ns = came_ns + 1000 * NS_PER_MS
    task = bob.gets_task()
    list(broker.core.checkpoint({}))
    assert rows["open_tasks"][-1]["state"] == b"running"
    broker.later(5, bob)
    bob.answers(task)
    ended = rows["tasks"].pop()
    assert (ended["arrived"], ended["assigned"], ended["ended"]) == (due_ns, due_ns, broker.now_ns)
    service = broker.core.services.by_name[b"echo"]
    assert service.latency.sum_ns == (TICK_MS + 5) * NS_PER_MS


def test_one_that_waits_for_long_is_written_down_again_before_it_seems_to_be_forgotten(
    broker: Broker, ann: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[object] = []

    class Journal:
        def open_task(self, at_ns: int, *_: object) -> None:
            noted.append(at_ns)

    monkeypatch.setattr(broker.core.facts, "_journal", Journal())
    ann.asks("echo", delay_ms=limits.DELAY_MS_MAX)
    for _ in range(600):
        broker.later(1000)
        list(broker.core.facts.checkpoint(broker.core.outcomes.timers, {}, broker.now_ns))
    assert [task.stage for task in broker.core.outcomes.timers] == [DELAYED]
    assert 600 // DELAYED_AGAIN_S - 1 <= len(noted) <= 600 // DELAYED_AGAIN_S + 1
    assert fates.OVERDUE.total_seconds() > 2 * DELAYED_AGAIN_S, "a checkpoint may be late"
