"""The dispatcher's clever structures against deliberately dumb ones, which do the same with plain lists and scans."""

from __future__ import annotations

import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, invariant, precondition, rule
from tests.longer import examples

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.core.dispatch import error_workers
from famulus.core.dispatch.accounts import Account
from famulus.core.dispatch.backlog import Backlog
from famulus.core.dispatch.error_workers import ErrorWorkers
from famulus.core.dispatch.flows import Flow
from famulus.core.dispatch.liveness import Liveness
from famulus.core.dispatch.repeats import OVERHEAD_BYTES, Known, Repeats
from famulus.core.dispatch.service import Service
from famulus.core.dispatch.session import Session
from famulus.core.dispatch.strangers import name_of_connection
from famulus.core.dispatch.task import Task
from famulus.core.timers import TICK_NS, Timed, Timers
from famulus.wire.inner import SessionTerms, Terms

THOROUGH = settings(max_examples=examples(30), stateful_step_count=60, deadline=None)


# -- repeats --------------------------------------------------------------------------------------------------------


class RepeatsMachine(RuleBasedStateMachine):
    """Tasks of three services whose memories differ. The model: what each service has, the oldest first."""

    @initialize(tasks_max=st.sampled_from([3, 1000]), bytes_max=st.sampled_from([2000, 1 << 30]))
    def begin(self, tasks_max: int, bytes_max: int) -> None:
        self.repeats = Repeats(tasks_max, bytes_max)
        self.bounds = tasks_max, bytes_max
        self.services = [Service(b"%d" % number) for number in range(3)]
        self.ended: dict[Service, list[tuple[Known, int]]] = {service: [] for service in self.services}
        self.open: list[Known] = []
        self.now_ns = 1

    @rule(number=st.integers(0, 2), count=st.integers(0, 4), size=st.integers(0, 2000), age_ns=st.integers(1, 20))
    def configure(self, number: int, count: int, size: int, age_ns: int) -> None:
        service = self.services[number]
        service.results_max, service.results_bytes_max, service.results_age_ns = count, size, age_ns

    @rule(passed_ns=st.integers(0, 10))
    def pass_time(self, passed_ns: int) -> None:
        self.now_ns += passed_ns

    @rule(key=st.sampled_from(b"abcdefgh"))
    def ask(self, key: int) -> None:
        name = bytes([key])
        if self.repeats.get(name, self.now_ns) is None:
            self.open.append(self.repeats.begin(name))

    @precondition(lambda self: self.open)
    @rule(data=st.data(), number=st.integers(0, 2), size=st.integers(0, 900), is_dropped=st.booleans())
    def end(self, data: st.DataObject, number: int, size: int, is_dropped: bool) -> None:
        known = self.open.pop(data.draw(st.integers(0, len(self.open) - 1)))
        service = self.services[number]
        if is_dropped:
            self.repeats.drop(known)
            return
        self.repeats.end(known, service, b"", bytes(size), self.now_ns)
        line = self.ended[service]
        line.append((known, OVERHEAD_BYTES + 1 + size))
        while line and (
            len(line) > service.results_max
            or sum(each for _, each in line) > service.results_bytes_max
            or line[0][0].until_ns <= self.now_ns
        ):
            line.pop(0)
        self._make_room()

    def _make_room(self) -> None:
        def size(service: Service) -> int:
            return sum(each for _, each in self.ended[service])

        tasks_max, bytes_max = self.bounds
        while sum(map(len, self.ended.values())) > tasks_max or sum(map(size, self.services)) > bytes_max:
            largest = max(map(size, self.services))
            # Of two that are equally large, either may forget.
            forgetful = [each for each in self.services if size(each) == largest]
            known = [each for each in forgetful if self.repeats._known.get(self.ended[each][0][0].key) is None]
            self.ended[(known or forgetful)[0]].pop(0)

    @invariant()
    def knows_what_it_should(self) -> None:
        should = {known.key: known for line in self.ended.values() for known, _ in line if known.until_ns > self.now_ns}
        should |= {known.key: known for known in self.open}
        names = [bytes([key]) for key in b"abcdefgh"]
        assert {name: known for name in names if (known := self.repeats.get(name, self.now_ns))} == should

    @invariant()
    def counts(self) -> None:
        sizes = [size for line in self.ended.values() for _, size in line]
        assert (self.repeats._tasks, self.repeats._bytes) == (len(sizes), sum(sizes))
        assert all(memory.ended for memory in self.repeats._memories.values())


TestRepeats = RepeatsMachine.TestCase
TestRepeats.settings = THOROUGH


# -- LRU ----------------------------------------------------------------------------------------------------------


class LRUMachine(RuleBasedStateMachine):
    """Workers of several services with several slots. The model: a list per service, and counts of free slots."""

    workers = Bundle("workers")

    def __init__(self) -> None:
        super().__init__()
        self.services = [Service(b"%d" % number) for number in range(3)]
        self.lines: dict[Service, list[Session]] = {service: [] for service in self.services}
        self.free: dict[Session, int] = {}
        self.ready: set[Session] = set()
        self.busy: list[Session] = []

    @rule(target=workers, offered=st.sets(st.integers(0, 2), min_size=1), slots=st.integers(1, 3))
    def connect(self, offered: set[int], slots: int) -> Session:
        services = [self.services[number] for number in sorted(offered)]
        session = Session(Account(b""), b"peer", b"%d" % len(self.free), services, SessionTerms(slots, 1000), 0)
        self.free[session] = slots
        return session

    @rule(session=workers)
    def enter(self, session: Session) -> None:
        if session not in self.ready:
            session.enter(0)
            self.ready.add(session)
            self._list(session)

    @rule(session=workers)
    def leave(self, session: Session) -> None:
        session.leave()
        self.ready.discard(session)
        for line in self.lines.values():
            if session in line:
                line.remove(session)

    @rule(number=st.integers(0, 2))
    def take(self, number: int) -> None:
        service = self.services[number]
        able = [one for one in self.ready if service in one.services and self.free[one]]
        taken = service.chooser.take(0)
        assert (taken is None) == (not able), "a slot is given exactly when one is free"
        line = self.lines[service]
        while line and not self.free[line[0]]:
            line.pop(0)
        assert taken is (line[0] if line else None)
        if taken is not None:
            line.remove(taken)
            self.free[taken] -= 1
            if self.free[taken]:
                line.append(taken)
            self.busy.append(taken)

    @precondition(lambda self: self.busy)
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        session = self.busy.pop(data.draw(st.integers(0, len(self.busy) - 1)))
        session.give_back_slot()
        self.free[session] += 1
        if session in self.ready:
            self._list(session)

    def _list(self, session: Session) -> None:
        for service in session.services:
            if self.free[session] and session not in self.lines[service]:
                self.lines[service].append(session)

    @invariant()
    def same_lines(self) -> None:
        for service, line in self.lines.items():
            assert service.chooser.listed() == line
        for session, free in self.free.items():
            assert session.free == free
            listed = [service for service in session.services if session in service.chooser.listed()]
            assert len(listed) + len(session.unlisted) == len(session.services)


TestLRU = LRUMachine.TestCase
TestLRU.settings = THOROUGH


def test_workers_of_one_service_take_turns_whatever_their_slots() -> None:
    service = Service(b"s")
    sessions = [
        Session(Account(b""), b"p", b"%d" % slots, [service], SessionTerms(slots, 1000), 0) for slots in (3, 1, 2)
    ]
    for session in sessions:
        session.enter(0)
    taken = [service.chooser.take(0) for _ in range(7)]
    a, b, c = sessions
    assert taken == [a, b, c, a, c, a, None]


# -- backlog ------------------------------------------------------------------------------------------------------


def make_task(priority: int, size: int, tasks_max: int = 5, bytes_max: int = 100) -> Task:
    terms = Terms(1000, priority, False, 1, tasks_max, bytes_max, 1000)
    return Task(Account(b""), b"client", b"", b"x" * size, 0, Flow(Service(b"s"), terms, b"", b""), b"", 0)


class BacklogMachine(RuleBasedStateMachine):
    """The model: one list, of which the first of the highest priority is next."""

    def __init__(self) -> None:
        super().__init__()
        self.backlog = Backlog()
        self.line: list[Task] = []

    @rule(priority=st.integers(0, 3), size=st.integers(0, 60), front=st.booleans())
    def push(self, priority: int, size: int, front: bool) -> None:
        task = make_task(priority, size)
        room = len(self.line) < 5 and sum(len(one.body) for one in self.line) + size <= 100
        assert self.backlog.has_room_for(task) == room
        if room:
            self.backlog.push(task, front=front)
            self.line.insert(0 if front else len(self.line), task)

    @precondition(lambda self: self.line)
    @rule()
    def pop(self) -> None:
        urgent = max(task.terms.priority for task in self.line)
        first = next(task for task in self.line if task.terms.priority == urgent)
        assert self.backlog.head() is first
        self.backlog.remove(first)
        self.line.remove(first)

    @precondition(lambda self: self.line)
    @rule(data=st.data())
    def remove_from_anywhere(self, data: st.DataObject) -> None:
        task = self.line.pop(data.draw(st.integers(0, len(self.line) - 1)))
        self.backlog.remove(task)

    @invariant()
    def same_order_count_and_bytes(self) -> None:
        lines = sorted(self.backlog._by_priority.items(), reverse=True)
        in_order = sorted(self.line, key=lambda task: -task.terms.priority)
        assert [task for _, line in lines for task in line] == in_order
        assert self.backlog.tasks == len(self.line)
        assert self.backlog.body_bytes == sum(len(task.body) for task in self.line)


TestBacklog = BacklogMachine.TestCase
TestBacklog.settings = THOROUGH


# -- timers -------------------------------------------------------------------------------------------------------


class TimersMachine(RuleBasedStateMachine):
    """The model: a dict of what is due when."""

    def __init__(self) -> None:
        super().__init__()
        self.timers: Timers[Timed] = Timers()
        self.due_ns: dict[Timed, int] = {}
        self.now_ns = 0

    @rule(in_ns=st.integers(-3 * TICK_NS, 5 * TICK_NS) | st.integers(-3, 5).map(lambda ticks: ticks * TICK_NS))
    def set(self, in_ns: int) -> None:
        item = Timed()
        due_ns = max(0, self.now_ns + in_ns)
        self.timers.set(item, due_ns)
        self.due_ns[item] = due_ns

    @precondition(lambda self: self.due_ns)
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        item = list(self.due_ns)[data.draw(st.integers(0, len(self.due_ns) - 1))]
        self.timers.cancel(item)
        del self.due_ns[item]
        assert item.bucket is None

    @precondition(lambda self: self.due_ns)
    @rule(data=st.data(), in_ns=st.integers(0, 5 * TICK_NS))
    def set_again(self, data: st.DataObject, in_ns: int) -> None:
        item = list(self.due_ns)[data.draw(st.integers(0, len(self.due_ns) - 1))]
        self.timers.cancel(item)
        self.timers.set(item, self.now_ns + in_ns)
        self.due_ns[item] = self.now_ns + in_ns

    @rule(by_ns=st.integers(0, 4 * TICK_NS))
    def time_passes(self, by_ns: int) -> None:
        self.now_ns += by_ns
        came = self.timers.due(self.now_ns)
        assert len(set(came)) == len(came)
        for item in came:
            assert item.bucket is None
            assert self.due_ns.pop(item) <= self.now_ns, "never early"
        for due_ns in self.due_ns.values():
            assert due_ns + TICK_NS > self.now_ns, "at most one tick late"

    @rule()
    def wake_when_told(self) -> None:
        """Who sleeps until `next_due_ns` finds something, and finds nothing a moment before."""
        next_ns = self.timers.next_due_ns
        if next_ns == NEVER_NS:
            assert not self.due_ns
        elif next_ns > self.now_ns:
            assert self.timers.due(next_ns - 1) == []
            self.now_ns = next_ns
            came = self.timers.due(next_ns)
            assert came
            for item in came:
                del self.due_ns[item]

    @invariant()
    def next_is_the_first_tick_that_has_something(self) -> None:
        ticks = [-(-due_ns // TICK_NS) * TICK_NS for due_ns in self.due_ns.values()]
        assert self.timers.next_due_ns == min(ticks, default=NEVER_NS)


TestTimers = TimersMachine.TestCase
TestTimers.settings = THOROUGH


def test_what_is_due_comes_in_order_of_its_tick() -> None:
    timers: Timers[Timed] = Timers()
    items = [Timed() for _ in range(50)]
    for number, item in enumerate(items):
        timers.set(item, (number * 7 % 50) * TICK_NS)
    came = timers.due(NEVER_NS)
    assert [items.index(item) * 7 % 50 for item in came] == list(range(50))


@pytest.mark.parametrize("at_once", [1, 1000, 100_000])
def test_a_hundred_thousand_cancelled_items_leave_nothing_behind(at_once: int) -> None:
    """As tasks do that are answered long before their time-outs, a few or many of them at a time."""
    timers: Timers[Timed] = Timers()
    tracemalloc.start()
    try:
        for first in range(0, 100_000, at_once):
            items = [Timed() for _ in range(at_once)]
            for number, item in enumerate(items):
                timers.set(item, 60 * NS_PER_S + (first + number) * NS_PER_MS // 10)
            for item in items:
                timers.cancel(item)
            del items, item
        held_bytes, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Ten seconds of ticks are all that there can be.
    assert len(timers._ticks) <= 10 * NS_PER_S // TICK_NS + 1
    assert held_bytes < 200_000
    assert timers.next_due_ns == NEVER_NS
    # One bucket may be kept for the next item, empty.
    assert list(timers._buckets.values()) in ([], [{}])
    assert len(timers._ticks) == len(timers._buckets)


# -- liveness -----------------------------------------------------------------------------------------------------


class LivenessMachine(RuleBasedStateMachine):
    """The model: a dict of who was seen when, scanned whole at each look."""

    watched = Bundle("watched")

    def __init__(self) -> None:
        super().__init__()
        self.liveness = Liveness()
        self.now_ns = 0
        self.seen_ns: dict[Session, int] = {}

    @rule(target=watched, heartbeat_ms=st.sampled_from([10, 50, 100]))
    def connect(self, heartbeat_ms: int) -> Session:
        session = Session(Account(b""), b"p", b"i", [], SessionTerms(1, heartbeat_ms), self.now_ns)
        self.liveness.watch(session)
        self.seen_ns[session] = self.now_ns
        return session

    @rule(session=watched)
    def is_seen(self, session: Session) -> None:
        if session in self.seen_ns:
            session.seen_ns = self.seen_ns[session] = self.now_ns

    @rule(session=watched)
    def says_goodbye(self, session: Session) -> None:
        if self.seen_ns.pop(session, None) is not None:
            self.liveness.forget(session)

    @rule(by_ms=st.integers(1, 200))
    def time_passes(self, by_ms: int) -> None:
        self.now_ns += by_ms * NS_PER_MS

    @rule(pause_ms=st.integers(1, 200))
    def we_sleep(self, pause_ms: int) -> None:
        self.now_ns += pause_ms * NS_PER_MS
        self.liveness.forgive(pause_ms * NS_PER_MS)
        for session in self.seen_ns:
            self.seen_ns[session] += pause_ms * NS_PER_MS

    @rule()
    def look(self) -> None:
        silent = {one for one, seen_ns in self.seen_ns.items() if seen_ns + one.silence_ns <= self.now_ns}
        lost = self.liveness.lost(self.now_ns)
        assert len(lost) == len(set(lost))
        assert set(lost) == silent
        for session in lost:
            del self.seen_ns[session]
            self.liveness.forget(session)
        assert self.liveness.next_due_ns > self.now_ns, "who looked need not look again at once"

    @invariant()
    def nobody_is_overslept(self) -> None:
        due = [seen_ns + session.silence_ns for session, seen_ns in self.seen_ns.items()]
        assert self.liveness.next_due_ns <= min(due, default=NEVER_NS)


TestLiveness = LivenessMachine.TestCase
TestLiveness.settings = THOROUGH


def test_workers_that_come_and_go_leave_no_long_heap_behind() -> None:
    liveness = Liveness()
    steady = [Session(Account(b""), b"p", b"i", [], SessionTerms(1, 1000), 0) for _ in range(10)]
    for session in steady:
        liveness.watch(session)
    for _ in range(10_000):
        session = Session(Account(b""), b"p", b"i", [], SessionTerms(1, 1000), 0)
        liveness.watch(session)
        liveness.forget(session)
        assert len(liveness._heap) < 200
    assert set(liveness.lost(10 * NS_PER_S)) == set(steady)


# -- error workers ------------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.sampled_from([b"a", b"b"]), st.integers(0, 700) | st.integers(0, 3)), max_size=40))
def test_penalties_double_are_bounded_and_are_forgotten(faults: list[tuple[bytes, int]]) -> None:
    ignored = ErrorWorkers()
    now_s = 0
    counts: dict[bytes, int] = {}
    last_s: dict[bytes, int] = {}
    until_s: dict[bytes, int] = {}
    for name, wait_s in faults:
        now_s += wait_s
        if now_s - last_s.get(name, -10_000) >= 600:
            counts[name] = 0
        counts[name] = counts.get(name, 0) + 1
        last_s[name] = now_s
        penalty_s = min(2 ** (counts[name] - 4), 300) if counts[name] > 3 else 0
        assert ignored.fault(name, now_s * NS_PER_S) == (penalty_s > 0)
        until_s[name] = now_s + penalty_s if penalty_s else until_s.get(name, 0)
        for one in counts:
            left_s = max(0, until_s[one] - now_s)
            assert ignored.ignored_for_ns(one, now_s * NS_PER_S) == left_s * NS_PER_S


def test_the_penalty_grows_to_its_bound_and_stays_there() -> None:
    ignored = ErrorWorkers()
    penalties_s = []
    for _ in range(100):
        ignored.fault(b"w", 0)
        penalties_s.append(ignored.ignored_for_ns(b"w", 0) // NS_PER_S)
    assert penalties_s[:13] == [0, 0, 0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 300]
    assert set(penalties_s[13:]) == {300}
    assert ignored.ignored_for_ns(b"w", 299 * NS_PER_S) == NS_PER_S
    assert ignored.ignored_for_ns(b"w", 300 * NS_PER_S) == 0


def test_a_pardon_starts_anew_and_others_are_none_of_its_business() -> None:
    ignored = ErrorWorkers()
    for _ in range(10):
        ignored.fault(b"w", 0)
    assert ignored.ignored_for_ns(b"other", 0) == 0
    ignored.clear(b"w")
    ignored.clear(b"nobody")
    assert ignored.ignored_for_ns(b"w", 0) == 0
    assert not ignored.fault(b"w", 0)


def test_everybody_on_the_list_can_be_named_and_forgiven_also_who_has_no_name() -> None:
    """Chance is nothing that an admin could read or type; where somebody comes from is."""
    ignored = ErrorWorkers()
    for raw in (b"w", name_of_connection(7, b"\x1b[2J\n\xff\0\r", "10.0.0.7:5001"), b"\xff"):
        ignored.fault(raw, 0)
    names = [name for name, _, _ in ignored.listed(0)]
    assert "10.0.0.7:5001" in names
    for name in names:
        assert name.isprintable()
        ignored.clear(name.encode())
    assert not ignored


def test_the_list_is_bounded_and_who_erred_longest_ago_makes_room() -> None:
    ignored = ErrorWorkers()
    for number in range(error_workers.ENTRIES_MAX):
        ignored.fault(b"%d" % number, number)
    for _ in range(5):
        ignored.fault(b"0", error_workers.ENTRIES_MAX)
    for number in range(5):
        ignored.fault(b"new-%d" % number, error_workers.ENTRIES_MAX)
    assert len(ignored._entries) == error_workers.ENTRIES_MAX
    assert ignored.ignored_for_ns(b"0", error_workers.ENTRIES_MAX) > 0
