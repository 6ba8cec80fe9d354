"""Snapshots become one status; whoever falls silent is gone."""

from __future__ import annotations

import msgspec
from tests.unit.web.status.conftest import NS_PER_S, dispatcher, peer, service, steward, supervisor, worker

from famulus.core.dispatch.latency import BUCKETS
from famulus.web.status.board import TRACKS_MAX, Board
from famulus.web.status.tracks import WORKERS_MAX, History, Pasts
from famulus.web.status.views import Journal, Point, Status, WorkerPoint
from famulus.wire import status


class Story:
    """A board, told snapshots at seconds."""

    def __init__(self) -> None:
        self.board = Board()

    def tell(self, at_s: float, *snapshots: status.Snapshot) -> bool:
        return [self.board.take(snapshot, int(at_s * NS_PER_S), int(at_s * 1000)) for snapshot in snapshots][-1]

    def status(self, at_s: float) -> Status:
        return self.board.status(int(at_s * NS_PER_S), int(at_s * 1000))


def test_a_board_that_heard_nothing_is_not_ready() -> None:
    shown = Story().status(0)
    assert (shown.ready, shown.state, shown.reasons) == (False, "gone", ("the dispatcher is silent",))


def test_a_lone_broker_is_active_once_its_dispatcher_and_a_router_are_there() -> None:
    story = Story()
    story.tell(1, supervisor(), dispatcher(1, routers=0))
    assert story.status(1).reasons == ("there is no router",)
    story.tell(2, dispatcher(2))
    shown = story.status(2)
    assert (shown.ready, shown.state, shown.identity, shown.version) == (True, "active", "b1", "1.2.3")
    assert [(process.name, process.restarts) for process in shown.processes] == [("dispatcher", 0), ("router-1", 2)]


def test_a_silent_dispatcher_is_gone_after_three_seconds_and_back_with_its_next_word() -> None:
    story = Story()
    story.tell(1, supervisor(), dispatcher(1))
    assert story.status(3.9).ready
    assert story.status(4.1).state == "gone"
    story.tell(5, dispatcher(0.2))
    assert story.status(5).ready


def test_the_state_is_what_the_network_wants_unless_the_broker_drains() -> None:
    story = Story()
    story.tell(1, supervisor(network=True), dispatcher(1))
    assert story.status(1).reasons == ("the broker is joining",)
    story.tell(1, steward(state="disabled"))
    assert story.status(1).reasons == ("the broker is disabled",)
    story.tell(2, steward(), dispatcher(2, draining=True))
    assert story.status(2).state == "draining"


def test_tasks_go_on_without_a_steward_but_nobody_knows_about_its_peers() -> None:
    story = Story()
    story.tell(1, supervisor(network=True), steward(peer("b2")), dispatcher(1))
    assert [broker.state for broker in story.status(1).brokers] == ["active", "active"]
    story.tell(6, dispatcher(6))
    shown = story.status(6)
    assert shown.ready
    assert [broker.state for broker in shown.brokers] == ["active", "gone"]


def test_a_peer_that_is_lost_or_back_is_news_that_cannot_wait() -> None:
    story = Story()
    told = [
        story.tell(1, supervisor(network=True), dispatcher(1), steward(peer("b2"))),
        story.tell(2, steward(peer("b2"))),
        story.tell(3, steward(peer("b2", alive=False))),
        story.tell(4, dispatcher(4)),
        story.tell(4, steward(peer("b2"))),
    ]
    assert told == [False, False, True, False, True]


def test_brokers_are_in_step_if_those_alive_have_one_digest() -> None:
    story = Story()
    story.tell(1, supervisor(network=True), dispatcher(1), steward(peer("b2", digest="old", alive=False)))
    assert story.status(1).config.in_step
    story.tell(1, steward(peer("b2", digest="old")))
    assert not story.status(1).config.in_step


def test_rates_are_those_of_the_last_five_seconds() -> None:
    story = Story()
    for second in range(20):
        # 10 a second, and from the tenth second on 100, of which 20 fail.
        ok = 10 * second + max(0, second - 10) * 70
        error = max(0, second - 10) * 20
        told = service(ok=ok, error=error)
        story.tell(second, dispatcher(second, services=(told,), counters={"ok": ok, "error": error}))
    shown = story.status(19)
    assert (shown.tasks.rate_s, shown.tasks.failed_rate_s) == (100.0, 20.0)
    assert (shown.services[0].rate_s, shown.services[0].failed_rate_s) == (100.0, 20.0)
    assert story.board.total.history.seconds[4].rate_s == 10.0
    assert story.status(23).tasks.rate_s == 0.0, "a dispatcher that is gone does nothing"


def test_a_new_dispatcher_counts_from_zero_and_nothing_goes_backwards() -> None:
    story = Story()
    story.tell(1, dispatcher(100, counters={"ok": 1000}, services=(service(ok=1000),)))
    story.tell(2, dispatcher(101, counters={"ok": 5}, services=(service(ok=5),)))
    story.tell(3, dispatcher(102, counters={"ok": 15}, services=(service(ok=15),)))
    assert story.status(3).tasks.rate_s == 10.0
    assert [point.rate_s for point in story.board.total.history.seconds] == [10.0]


def _counts(**at: int) -> list[int]:
    counts = [0] * BUCKETS
    for bucket, count in at.items():
        counts[int(bucket[1:])] = count
    return counts


def test_quantiles_are_those_of_the_last_minute() -> None:
    story = Story()
    slow, fast = 330, 220  # about 0.9 s and 0.9 ms
    for second in range(0, 100, 5):
        counts = _counts(b330=second, b220=1000 * max(0, second - 30))
        story.tell(second, dispatcher(second, services=(service(),)))
        story.tell(second, status.Latency("dispatcher-7", second * NS_PER_S, {"echo": status.Took(5, counts)}))
    (shown,) = story.status(95).services
    assert shown.p50_ms is not None
    assert 0.8 < shown.p50_ms < 1.0, (slow, fast)
    assert story.status(95).tasks.p99_ms == shown.p99_ms
    story.tell(200, dispatcher(200, services=(service(),)))
    assert story.status(200).services[0].p50_ms is None, "nobody did anything for a minute"


def test_a_latency_of_another_shape_is_ignored() -> None:
    story = Story()
    story.tell(1, dispatcher(1, services=(service(),)))
    story.tell(1, status.Latency("somebody", 1, {"echo": status.Took(1, [1, 2, 3])}))
    assert story.status(1).services[0].p50_ms is None


def test_workers_and_services_are_shown_as_they_are_told() -> None:
    story = Story()
    errors = (status.ErrorWorker("<script>", 4, 8),)
    told = dispatcher(
        1, services=(service(free=3, busy=1),), workers=(worker(free=3),), workers_total=5000, errors=errors
    )
    story.tell(1, supervisor(), told)
    shown = story.status(1)
    assert (shown.workers[0].busy, shown.workers_total) == (1, 5000)
    assert (shown.services[0].free, shown.services[0].busy) == (3, 1)
    assert shown.errors[0].identity == "<script>"


def test_tasks_between_brokers_have_rates_by_peer_and_in_all() -> None:
    story = Story()
    for second in range(10):
        exchanges = (status.Exchange("b2", 10 * second, 4 * second), status.Exchange("b3", second, 0))
        story.tell(second, dispatcher(second, exchanges=exchanges))
    story.tell(9, supervisor(network=True), steward(peer("b2"), peer("b3"), peer("b4")))
    here, b2, b3, b4 = story.status(9).brokers
    assert (here.given, here.taken, here.given_rate_s, here.taken_rate_s) == (99, 36, 11.0, 4.0)
    assert (b2.given, b2.taken, b2.given_rate_s, b2.taken_rate_s) == (90, 36, 10.0, 4.0)
    assert (b3.given_rate_s, b4.given, b4.given_rate_s) == (1.0, 0, 0.0)
    assert story.status(20).brokers[1].given_rate_s == 0.0, "a dispatcher that is gone hands nothing over"
    story.tell(21, dispatcher(1, exchanges=(status.Exchange("b2", 90, 1),)))
    assert story.status(21).brokers[1].taken_rate_s == 0.0, "a new one counts from zero"
    story.tell(22, dispatcher(2, exchanges=(status.Exchange("b2", 90, 1), status.Exchange("b3", 5, 0))))
    assert story.status(22).brokers[0].given_rate_s == story.status(22).brokers[2].given_rate_s == 5.0
    story.tell(23, dispatcher(3, exchanges=(status.Exchange("b2", 95, 0), status.Exchange("b3", 5, 0))))
    assert story.status(23).brokers[1].taken_rate_s == 0.0, "it was forgotten in between, and nothing goes backwards"


def test_who_is_connected_and_who_was_refused() -> None:
    board = Board()
    board.take(dispatcher(1), NS_PER_S, 1000)
    told = board.status(NS_PER_S, 1000)
    assert (told.keys, told.plain_on_purpose, told.principals, told.refusals) == ("none", False, (), ())
    shop = status.Presence("shop", "frontend", 3, 500)
    older, newer = (
        status.Refusal("backend", "connect", "unknown_key", "", "ab" * 32, "10.0.0.9", "", 2, ago_ms)
        for ago_ms in (900, 800)
    )
    board.take(dispatcher(1, principals=(shop,), refusals=(older,)), NS_PER_S, 1000)
    board.take(supervisor(plain_on_purpose=True), NS_PER_S, 1000)
    board.take(steward(keys="all", refusals=(newer,)), NS_PER_S, 1000)
    told = board.status(NS_PER_S, 1000)
    assert (told.keys, told.plain_on_purpose) == ("all", True)
    assert msgspec.to_builtins(told.principals) == (
        {"name": "shop", "port": "frontend", "connections": 3, "since_ms": 500},
    )
    assert [each.at_ms for each in told.refusals] == [200, 100]


def test_the_journal_is_what_the_supervisor_says() -> None:
    story = Story()
    assert not story.status(0).journal.on
    processes = (status.Process("scribe", 9, "ready", 0),)
    story.tell(1, supervisor(journal=status.Journal(100, 2, 3000, 7, 20), processes=processes))
    assert story.status(1).journal == Journal(True, "ready", rows=100, files=2, bytes=3000, lost=7, open_rows=20)
    story.tell(2, supervisor())
    assert story.status(2).journal.state == "off"


def test_a_worker_has_a_past_of_five_minutes() -> None:
    story = Story()
    for second in range(400):
        story.tell(second, dispatcher(second, workers=(worker("w1", slots=500, free=500 - second),)))
    past = story.board.workers.of("w1", 399_000)
    assert (len(past), past[0], past[-1]) == (300, WorkerPoint(100_000, 100), WorkerPoint(399_000, 399))
    assert story.board.workers.of("w2", 399_000) == []
    story.tell(401, dispatcher(401))
    assert len(story.board.workers.of("w1", 401_000)) == 299, "it may come back"
    story.tell(500, dispatcher(500, workers=(worker("w1"),)))
    story.tell(499, dispatcher(501, workers=(worker("w1"),)))
    assert story.board.workers.of("w1", 499_000) == [WorkerPoint(499_000, 0)], "the clock was set back"
    story.tell(900, dispatcher(900))
    assert len(story.board.workers) == 0


def test_the_past_of_workers_is_bounded() -> None:
    pasts = Pasts()
    for second in range(3):
        pasts.take([worker(f"w{second}-{number}") for number in range(900)], second * 1000)
        assert len(pasts) <= WORKERS_MAX
    assert len(pasts.of("w2-899", 3000)) == 1, "those that are there make the others go"


def test_each_second_has_its_own_durations() -> None:
    story = Story()
    echo, other = ([0, 5, 5, 9], [0, 0, 0, 100])
    for second, (slow, fast) in enumerate(zip(echo, other, strict=True)):
        story.tell(second, dispatcher(second, services=(service("echo"), service("other"))))
        took = {"echo": status.Took(5, _counts(b330=100 + slow)), "other": status.Took(5, _counts(b220=fast))}
        story.tell(second, status.Latency("dispatcher-7", second * NS_PER_S, took))
    story.tell(4, dispatcher(4, services=(service("echo"), service("other"))))
    # What is told after a snapshot of the dispatcher belongs to the next one; the first of all is a whole life.
    past = [point.p50_ms and round(point.p50_ms) for point in story.board.tracks["echo"].history.seconds]
    assert past == [None, 935, None, 935]
    last = story.board.total.history.seconds[-1]
    assert (round(last.p50_ms or 0, 1), round(last.p99_ms or 0)) == (1.0, 935)
    shown = story.status(4)
    assert (shown.tasks.p50_now_ms, shown.tasks.p99_now_ms) == (last.p50_ms, last.p99_ms)
    assert round(shown.services[0].p50_now_ms or 0) == 935
    story.tell(5, dispatcher(5, services=(service("echo"),)))
    assert story.status(5).tasks.p50_now_ms is None, "nothing was answered"


def test_a_minute_has_the_mean_p50_and_the_highest_p99() -> None:
    history = History(10, 2)
    for second, p50_ms in ((0, 1.0), (1, None), (2, 3.0), (60, None)):
        history.add(Point(second * 1000, 0.0, 0.0, 0, 0, p50_ms, p50_ms and 10 * p50_ms))
    (minute,) = history.minutes
    assert (minute.p50_ms, minute.p99_ms) == (2.0, 30.0)


def test_the_past_is_bounded() -> None:
    story = Story()
    for second in range(3):
        names = [f"s{second}-{number}" for number in range(900)]
        story.tell(second, dispatcher(second, services=tuple(service(name) for name in names)))
    assert len(story.board.tracks) <= TRACKS_MAX
    history = History(seconds_max=10, minutes_max=2)
    for second in range(600):
        history.add(Point(second * 1000, float(second), 0.0, second, 0))
    assert len(history.seconds) == 10
    assert [point.backlog for point in history.minutes] == [479, 539], "of a minute the worst"
    for _ in range(1000):
        history.add(Point(599_000, 0.0, 0.0, 0, 0))
    assert len(history._minute) <= 120, "also when the clock stands still"


def test_snapshots_survive_the_way_and_rubbish_is_nothing() -> None:
    config = status.Config(3, "d3", b'{"a": 1}', b"[]", 0)
    for snapshot in (dispatcher(1, services=(service("naïve ☕"),)), supervisor(), steward(peer()), config):
        assert status.read(status.write(snapshot)) == snapshot
    for rubbish in (b"", b"\xc1", b"\x80", status.write(dispatcher(1))[:-3]):
        assert status.read(rubbish) is None
