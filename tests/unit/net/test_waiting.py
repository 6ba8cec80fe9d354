"""A wait ends with news, in time, or by a signal; native or not."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from time import monotonic, monotonic_ns
from types import FrameType

import pytest
import zmq

from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S
from famulus.net import native, pump, waiting
from famulus.net.waiting import Bell, Waiting

SOON_NS = 10 * NS_PER_S


@pytest.fixture(params=["native", "python"], autouse=True)
def twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "python":
        monkeypatch.setattr(waiting, "wait_natively", None)
    elif not native.NATIVE:
        pytest.skip(f"no native pump: {native.WHY_NOT_NATIVE}")


@pytest.fixture
def bell() -> Iterator[Bell]:
    bell = Bell()
    yield bell
    bell.close()


def test_news_are_told_by_the_name_of_their_source(bell: Bell) -> None:
    other = Bell()
    watching = Waiting()
    watching.watch(bell.fd, "the bell")
    watching.watch(other.fd)
    bell.ring()
    assert watching.wait(monotonic_ns() + SOON_NS) == ["the bell"]
    other.ring()
    assert sorted(watching.wait(monotonic_ns() + SOON_NS), key=str) == sorted(["the bell", other.fd], key=str)
    bell.answer()
    assert watching.wait(monotonic_ns() + SOON_NS) == [other.fd]
    watching.close()
    other.close()


def test_a_socket_is_watched_as_well_as_a_descriptor() -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    left, right = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
    left.bind("inproc://waiting")
    right.connect("inproc://waiting")
    watching = Waiting()
    pump.recv_many(left, 1)
    watching.watch(left)
    right.send(b"news")
    assert watching.wait(monotonic_ns() + SOON_NS) == [left]
    watching.forget(left)
    assert watching.wait(0) == []
    watching.close()
    context.destroy(linger=0)


def test_once_means_once(bell: Bell) -> None:
    watching = Waiting(once=True)
    watching.watch(bell.fd)
    bell.ring()
    assert watching.wait(monotonic_ns() + SOON_NS) == [bell.fd]
    assert watching.wait(0) == []
    watching.close()


@pytest.mark.parametrize("left_ms", [-5, 0, 1, 30])
def test_a_wait_is_over_in_time_and_never_early(bell: Bell, left_ms: int) -> None:
    watching = Waiting()
    watching.watch(bell.fd)
    until_ns = monotonic_ns() + left_ms * NS_PER_MS
    assert watching.wait(until_ns) == []
    assert until_ns <= monotonic_ns() < until_ns + SOON_NS
    watching.close()


def test_other_threads_run_meanwhile(bell: Bell) -> None:
    watching = Waiting()
    watching.watch(bell.fd)
    ringer = threading.Timer(0.01, bell.ring)
    ringer.start()
    assert watching.wait(NEVER_NS) == [bell.fd]
    ringer.join()
    watching.close()


def test_a_signal_is_handled_and_the_wait_goes_on(bell: Bell) -> None:
    watching = Waiting()
    watching.watch(bell.fd)

    def ring(number: int, frame: FrameType | None) -> None:
        bell.ring()

    before = signal.signal(signal.SIGALRM, ring)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        assert watching.wait(NEVER_NS) == [bell.fd]
    finally:
        signal.signal(signal.SIGALRM, before)
        watching.close()


def wait_until_alarm(watching: Waiting) -> None:
    """The alarm is set here, since it may go off before anything else is done."""
    signal.setitimer(signal.ITIMER_REAL, 0.01)
    watching.wait(NEVER_NS)


def test_a_signal_that_raises_ends_the_wait(bell: Bell) -> None:
    watching = Waiting()
    watching.watch(bell.fd)

    def give_up(number: int, frame: FrameType | None) -> None:
        raise InterruptedError("enough")

    before = signal.signal(signal.SIGALRM, give_up)
    began = monotonic()
    try:
        with pytest.raises(InterruptedError, match="enough"):
            wait_until_alarm(watching)
    finally:
        signal.signal(signal.SIGALRM, before)
        watching.close()
    assert monotonic() - began < waiting.LONGEST_MS / 1000


def test_many_may_have_news_at_once() -> None:
    bells = [Bell() for _ in range(200)]
    watching = Waiting(once=True)
    for number, each in enumerate(bells):
        watching.watch(each.fd, number)
        each.ring()
    heard: set[int] = set()
    while len(heard) < len(bells):
        news = watching.wait(monotonic_ns() + SOON_NS)
        assert news
        assert not heard & set(news)
        heard |= set(news)
    assert watching.wait(0) == []
    watching.close()
    for each in bells:
        each.close()


def test_a_closed_wait_is_an_error_and_no_crash() -> None:
    watching = Waiting()
    watching.close()
    with pytest.raises((OSError, ValueError)):
        watching.wait(0)


@pytest.mark.skipif(not native.NATIVE, reason="of the native one")
def test_the_native_wait_checks_what_it_is_given() -> None:
    from famulus.net import _pump

    with pytest.raises(TypeError):
        _pump.wait(0, 0, 0, [], False)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        _pump.wait("0", 0, 0, {}, False)  # type: ignore[arg-type]
    with pytest.raises(OSError, match="descriptor"):
        _pump.wait(-1, 0, 0, {}, False)
    read, write = os.pipe()
    with pytest.raises(OSError, match="argument"):
        _pump.wait(read, 0, 0, {}, False)  # no epoll
    os.close(read)
    os.close(write)


def test_who_is_alone_hears_the_same(bell: Bell) -> None:
    watching = Waiting(once=True, alone=True)
    watching.watch(bell.fd)
    assert watching.wait(monotonic_ns() + NS_PER_MS) == []
    bell.ring()
    assert watching.wait(monotonic_ns() + SOON_NS) == [bell.fd]
    watching.close()


def test_a_signal_is_obeyed_by_who_is_alone_too(bell: Bell) -> None:
    heard: list[int] = []

    def hear(number: int, _: FrameType | None) -> None:
        heard.append(number)
        bell.ring()

    before = signal.signal(signal.SIGALRM, hear)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        watching = Waiting(alone=True)
        watching.watch(bell.fd)
        assert watching.wait(monotonic_ns() + SOON_NS) == [bell.fd]
        watching.close()
    finally:
        signal.signal(signal.SIGALRM, before)
    assert heard == [signal.SIGALRM]
