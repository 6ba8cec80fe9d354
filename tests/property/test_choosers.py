"""Whatever workers do, and whichever way they are chosen: no slot is lost, and the right one is taken."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, precondition, rule
from tests.longer import examples

from famulus.core.clock import NS_PER_MS
from famulus.core.dispatch.accounts import Account
from famulus.core.dispatch.by_key import weight_of
from famulus.core.dispatch.chooser import Candidate, mark_of
from famulus.core.dispatch.ewma import Peak
from famulus.core.dispatch.service import Service
from famulus.core.dispatch.session import Session
from famulus.wire.inner import POLICIES, SessionTerms, read_mark, write_mark

THOROUGH = settings(max_examples=examples(40), stateful_step_count=60, deadline=None)
KEYS = st.sampled_from([0, *(read_mark(write_mark(name)) for name in ("red", "green", "blue"))])


def any_will_do(taken: Session, able: list[Session], key: int) -> bool:
    return taken in able


def is_least_busy(taken: Session, able: list[Session], key: int) -> bool:
    return busy_share(taken) == min(map(busy_share, able))


def is_the_keys_own(taken: Session, able: list[Session], key: int) -> bool:
    return not key or weight_of(key, taken.mark) == max(weight_of(key, one.mark) for one in able)


def busy_share(session: Session) -> float:
    return (session.slots - session.free) / session.slots


#: Whether it was right to take this one, while these had a free slot.
RIGHT: dict[str, Callable[[Session, list[Session], int], bool]] = {
    "lru": any_will_do,  # test_models has the order
    "least_busy": is_least_busy,
    "ewma": any_will_do,
    "key": is_the_keys_own,
}


class ChooserMachine(RuleBasedStateMachine):
    """Workers of several services, each with a policy that may change."""

    workers = Bundle("workers")

    def __init__(self) -> None:
        super().__init__()
        self.services = [Service(b"%d" % number) for number in range(len(POLICIES))]
        for policy, service in enumerate(self.services):
            service.choose_by(policy)
        self.sessions: list[Session] = []
        self.busy: list[tuple[Service, Session]] = []
        self.now_ns = 0

    @rule(target=workers, offered=st.sets(st.integers(0, len(POLICIES) - 1), min_size=1), slots=st.integers(1, 3))
    def connect(self, offered: set[int], slots: int) -> Session:
        services = [self.services[number] for number in sorted(offered)]
        name = b"%d" % len(self.sessions)
        self.sessions.append(Session(Account(b""), name, name, services, SessionTerms(slots, 1000), 0))
        return self.sessions[-1]

    @rule(session=workers)
    def enter(self, session: Session) -> None:
        if not session.ready:
            session.enter(0)

    @rule(session=workers)
    def leave(self, session: Session) -> None:
        session.leave()

    @rule(number=st.integers(0, len(POLICIES) - 1), policy=st.integers(0, len(POLICIES) - 1))
    def choose_by(self, number: int, policy: int) -> None:
        service = self.services[number]
        former = service.chooser
        service.choose_by(policy)
        for session in self.sessions:
            if service in session.services:
                session.exchange(former, service.chooser)

    @rule(number=st.integers(0, len(POLICIES) - 1), key=KEYS)
    def take(self, number: int, key: int) -> None:
        service = self.services[number]
        able = [one for one in self.sessions if one.ready and service in one.services and one.free]
        before = {one: one.free for one in self.sessions}
        taken = service.chooser.take(key)
        assert (taken is None) == (not able), "a slot is given exactly when one is free"
        if taken is None:
            return
        assert isinstance(taken, Session)
        taken.free += 1
        assert {one: one.free for one in self.sessions} == before, "one slot is taken, and no other"
        assert RIGHT[POLICIES[service.policy]](taken, able, key)
        taken.free -= 1
        self.busy.append((service, taken))

    @precondition(lambda self: self.busy)
    @rule(data=st.data(), took_ms=st.integers(0, 1000))
    def answer(self, data: st.DataObject, took_ms: int) -> None:
        service, session = self.busy.pop(data.draw(st.integers(0, len(self.busy) - 1)))
        self.now_ns += took_ms * NS_PER_MS
        service.chooser.answered(session, took_ms * NS_PER_MS, self.now_ns)
        session.give_back_slot()

    @invariant()
    def each_is_listed_once_or_noted(self) -> None:
        for session in self.sessions:
            for service in session.services:
                places = service.chooser.listed().count(session) + session.unlisted.count(service.chooser)
                assert places == 1
                if session.ready and session.free:
                    assert session in service.chooser.listed()
            assert len(session.unlisted) <= len(session.services)


TestChoosers = ChooserMachine.TestCase
TestChoosers.settings = THOROUGH


@given(st.lists(st.binary(min_size=1, max_size=20), min_size=2, max_size=12, unique=True), st.text(max_size=50))
def test_a_key_moves_only_if_its_worker_leaves(names: list[bytes], text: str) -> None:
    key = read_mark(write_mark(text))
    workers = [Candidate(1, [], mark_of(name)) for name in names]
    home, *others = sorted(workers, key=lambda worker: -weight_of(key, worker.mark))
    for gone in others:
        staying = [worker for worker in workers if worker is not gone]
        assert max(staying, key=lambda worker: weight_of(key, worker.mark)).mark == home.mark


@given(st.lists(st.tuples(st.integers(0, 10**10), st.integers(0, 10**11)), min_size=1))
def test_a_peak_lies_between_the_last_answer_and_the_longest(answers: list[tuple[int, int]]) -> None:
    peak, now_ns = Peak(), 0
    for took_ns, pause_ns in answers:
        now_ns += pause_ns
        peak.add(took_ns, now_ns)
    longest = max(took_ns for took_ns, _ in answers)
    assert answers[-1][0] * 0.999 <= peak.ns <= longest * 1.001
    assert peak.left_ns(now_ns + NS_PER_MS) <= peak.ns
