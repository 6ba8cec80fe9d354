"""What the pump promises: whole messages, nothing blocked, nothing half sent, nothing leaked."""

from __future__ import annotations

import errno
import gc
import itertools
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from famulus.net import native, pump
from famulus.net.stream_python import FRAMES_MAX

if native.NATIVE:
    from famulus.net import _pump as pump_native

DEADLINE_S = 10.0
_serial = itertools.count()
#: A socket must be closed, not collected: pyzmq warns, and a warning is a failure here.
_in_use: list[zmq.Socket[bytes]] = []

Context = zmq.Context[zmq.Socket[bytes]]
Message = Sequence[bytes]

without_native = pytest.mark.skipif(not native.NATIVE, reason=f"no native pump: {native.WHY_NOT_NATIVE}")


@pytest.fixture
def context() -> Iterator[Context]:
    context: Context = zmq.Context()
    yield context
    context.destroy(linger=0)
    _in_use.clear()


def fresh_address() -> str:
    return f"inproc://pump-{next(_serial)}"


def pair_of(
    context: Context, left: int, right: int, address: str | None = None, hwm: int = 0
) -> tuple[zmq.Socket[bytes], zmq.Socket[bytes]]:
    """Two connected sockets; `right` binds. A high-water mark of 0 is none."""
    sockets = context.socket(left), context.socket(right)
    for socket in sockets:
        socket.sndhwm = socket.rcvhwm = hwm
    if left == zmq.DEALER:
        sockets[0].routing_id = b"left"
    sockets[1].bind(address or fresh_address())
    sockets[0].connect(sockets[1].get_string(zmq.LAST_ENDPOINT).rstrip("\0"))
    _in_use.extend(sockets)
    return sockets


def collect(socket: zmq.Socket[bytes], count: int, limit: int = 100) -> list[list[bytes]]:
    """`count` messages, however long the transport takes, within reason."""
    messages: list[list[bytes]] = []
    end = time.monotonic() + DEADLINE_S
    while len(messages) < count and time.monotonic() < end:
        socket.poll(100)
        messages += pump.recv_many(socket, min(limit, count - len(messages)))
    return messages


def introduce(dealer: zmq.Socket[bytes], router: zmq.Socket[bytes]) -> None:
    """A ROUTER knows a peer once it has heard from it."""
    assert pump.send_many(dealer, [[b"hello"]]) == []
    assert collect(router, 1) == [[b"left", b"hello"]]


SHAPES: dict[str, Message] = {
    "one empty frame": [b""],
    "one byte": [b"x"],
    "empty between": [b"a", b"", b"b", b""],
    "around libzmq's inline limit": [b"x" * size for size in (32, 33, 34, 64, 255, 256)],
    "1 MiB": [b"head", os.urandom(2**20)],
    "16 frames": [b"%d" % number for number in range(16)],
    "tuple": (b"a", b"b"),
}


@pytest.mark.parametrize("address", ["inproc", "ipc", "tcp"])
@pytest.mark.parametrize("message", SHAPES.values(), ids=SHAPES.keys())
def test_every_shape_arrives_as_it_left(context: Context, tmp_path: Path, address: str, message: Message) -> None:
    where = {"inproc": None, "ipc": f"ipc://{tmp_path}/pump", "tcp": "tcp://127.0.0.1:*"}[address]
    push, pull = pair_of(context, zmq.PUSH, zmq.PULL, where)
    end = time.monotonic() + DEADLINE_S
    while pump.send_some(push, [message]) == 0:  # not connected yet
        assert time.monotonic() < end
        push.poll(100, zmq.POLLOUT)
    assert collect(pull, 1) == [list(message)]


@pytest.mark.parametrize("count", [16, 17, 18, 20, 40])
def test_a_message_too_long_is_cut_and_the_next_is_whole(context: Context, count: int) -> None:
    push, pull = pair_of(context, zmq.PUSH, zmq.PULL)
    frames = [b"%d" % number for number in range(count)]
    assert pump.send_many(push, [frames, [b"next"]]) == []
    assert collect(pull, 2) == [frames[: FRAMES_MAX + 1], [b"next"]]


@without_native
def test_both_twins_agree_on_the_frames_kept() -> None:
    assert pump_native.FRAMES_MAX == FRAMES_MAX == 16


def test_an_empty_socket_gives_nothing(context: Context) -> None:
    _, pull = pair_of(context, zmq.PUSH, zmq.PULL)
    assert pump.recv_many(pull, 10) == []


def test_the_limit_is_kept_and_the_rest_stays(context: Context) -> None:
    push, pull = pair_of(context, zmq.PUSH, zmq.PULL)
    assert pump.send_some(push, [[b"%d" % number] for number in range(5)]) == 5
    assert pump.recv_many(pull, 0) == []
    assert pump.recv_many(pull, 2) == [[b"0"], [b"1"]]
    assert pump.recv_many(pull, 2) == [[b"2"], [b"3"]]
    assert pump.recv_many(pull, 2) == [[b"4"]]


def test_nothing_to_send_is_no_error(context: Context) -> None:
    push, _ = pair_of(context, zmq.PUSH, zmq.PULL)
    assert pump.send_many(push, []) == []
    assert pump.send_some(push, ()) == 0


def test_an_unknown_peer_is_named_and_the_others_are_served(context: Context) -> None:
    dealer, router = pair_of(context, zmq.DEALER, zmq.ROUTER)
    router.router_mandatory = True
    introduce(dealer, router)
    batch = [[b"left", b"one"], [b"nobody", b"lost"], [b"left", b"two"], [b"nobody", b"lost", b"too"]]
    assert pump.send_many(router, batch) == [(1, errno.EHOSTUNREACH), (3, errno.EHOSTUNREACH)]
    assert collect(dealer, 2) == [[b"one"], [b"two"]]
    assert pump.recv_many(dealer, 10) == []


def test_nothing_of_a_message_that_does_not_fit_leaves(context: Context) -> None:
    dealer, router = pair_of(context, zmq.DEALER, zmq.ROUTER, hwm=2)
    router.router_mandatory = True
    introduce(dealer, router)
    batch = [[b"left", b"%d" % number, b"end"] for number in range(50)]
    refused = pump.send_many(router, batch)
    assert 0 < len(refused) < 50
    assert {code for _, code in refused} == {errno.EAGAIN}
    lost = {index for index, _ in refused}
    expected = [message[1:] for index, message in enumerate(batch) if index not in lost]
    assert collect(dealer, len(expected)) == expected
    assert pump.recv_many(dealer, 10) == []


def test_send_some_stops_when_full_and_resumes(context: Context) -> None:
    push, pull = pair_of(context, zmq.PUSH, zmq.PULL, hwm=4)
    waiting = [[b"%d" % number, b"end"] for number in range(40)]
    expected = list(waiting)
    received: list[list[bytes]] = []
    first = pump.send_some(push, waiting)
    assert 0 < first < 40
    assert pump.send_some(push, waiting[first:]) == 0
    end = time.monotonic() + DEADLINE_S
    waiting = waiting[first:]
    while len(received) < len(expected) and time.monotonic() < end:
        received += pump.recv_many(pull, 3)
        waiting = waiting[pump.send_some(push, waiting) :]
    assert received == expected


def test_without_any_peer_nothing_fits(context: Context) -> None:
    with context.socket(zmq.DEALER) as dealer:
        assert pump.send_some(dealer, [[b"a"], [b"b"]]) == 0
        assert pump.send_many(dealer, [[b"a"], [b"b", b"c"]]) == [(0, errno.EAGAIN), (1, errno.EAGAIN)]


def calls_of(socket: Any) -> list[Any]:
    return [
        lambda: pump.recv_many(socket, 1),
        lambda: pump.send_many(socket, [[b"x"]]),
        lambda: pump.send_some(socket, [[b"x"]]),
    ]


def test_a_closed_socket_is_an_error_and_no_crash(context: Context) -> None:
    socket = context.socket(zmq.DEALER)
    socket.close()
    for call in calls_of(socket):
        with pytest.raises(zmq.ZMQError) as caught:
            call()
        assert caught.value.errno == zmq.ENOTSOCK


def test_a_socket_closed_behind_its_back_is_an_error_and_no_crash() -> None:
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    context.destroy(linger=0)
    for call in calls_of(socket):
        with pytest.raises(zmq.ZMQError):
            call()


def test_a_terminated_context_is_told() -> None:
    context = zmq.Context()
    socket = context.socket(zmq.DEALER)
    # term() would wait for the socket, which is still open: shutdown() is its first half.
    zmq_shutdown(context)
    for call in calls_of(socket):
        with pytest.raises(zmq.ContextTerminated):
            call()
    socket.close(linger=0)
    context.term()


def zmq_shutdown(context: Context) -> None:
    """pyzmq has no name for zmq_ctx_shutdown: take it from the libzmq that it has loaded."""
    import ctypes

    from zmq.backend.cython import _zmq

    library = ctypes.CDLL(_zmq.__file__)
    library.zmq_ctx_shutdown(ctypes.c_void_p(context.underlying))


def test_what_was_read_before_an_error_is_not_lost(context: Context) -> None:

    class Failing(zmq.Socket[bytes]):
        answers: list[bytes]

        def getsockopt(self, option: int) -> Any:
            return zmq.POLLIN if option == zmq.EVENTS else 0

        def recv(self, *_: Any, **__: Any) -> Any:
            if not self.answers:
                raise zmq.ContextTerminated
            return self.answers.pop(0)

    with Failing(context, zmq.PULL) as socket:
        socket.__dict__["answers"] = [b"a", b"b"]
        assert pump.recv_many(socket, 10) == [[b"a"], [b"b"]]
        with pytest.raises(zmq.ContextTerminated):
            pump.recv_many(socket, 10)


def test_a_peer_that_vanishes_in_mid_message_costs_only_that_message(context: Context) -> None:
    """libzmq says EAGAIN past the first frame, then swallows the rest of the message."""

    class Vanishing(zmq.Socket[bytes]):
        offered: list[tuple[bytes, bool]]

        def send(self, data: Any, flags: int = 0, *_: Any, **__: Any) -> Any:
            self.offered.append((data, bool(flags & zmq.SNDMORE)))
            if data == b"fails":
                raise zmq.Again

    with Vanishing(context, zmq.DEALER) as socket:
        offered = socket.__dict__["offered"] = []
        batch = [[b"a", b"fails", b"c", b"d"], [b"whole", b"one"]]
        assert pump.send_many(socket, batch) == [(0, errno.EAGAIN)]
        assert offered[:4] == [(b"a", True), (b"fails", True), (b"c", True), (b"d", False)]
        assert offered[4:] == [(b"whole", True), (b"one", False)]


@pytest.mark.parametrize(
    "bad",
    [
        pytest.param([[b"good"], [b"a", "text"]], id="str frame"),
        pytest.param([[b"good"], [b"a", None, b"c"]], id="None frame"),
        pytest.param([[b"good"], [b"a", bytearray(b"b")]], id="bytearray frame"),
        pytest.param([[b"good"], [memoryview(b"a")]], id="memoryview frame"),
        pytest.param([[b"good"], b"message"], id="bytes message"),
        pytest.param([[b"good"], iter([b"a"])], id="iterator message"),
        pytest.param(iter([[b"good"]]), id="iterator batch"),
        pytest.param(None, id="no batch"),
    ],
)
def test_bad_types_leave_nothing_behind(context: Context, bad: Any) -> None:
    push, pull = pair_of(context, zmq.PUSH, zmq.PULL)
    for send in (pump.send_many, pump.send_some):
        with pytest.raises(TypeError):
            send(push, bad)
    assert pump.send_some(push, [[b"clean", b"start"]]) == 1
    assert collect(pull, 1) == [[b"clean", b"start"]]
    assert pump.recv_many(pull, 10) == []


def test_a_message_without_frames_is_refused(context: Context) -> None:
    push, pull = pair_of(context, zmq.PUSH, zmq.PULL)
    for send in (pump.send_many, pump.send_some):
        with pytest.raises(ValueError, match="message 1 has no frames"):
            send(push, [[b"good"], []])
    assert pump.recv_many(pull, 10) == []


@pytest.mark.parametrize("impostor", [None, 17, object()], ids=["None", "17", "object"])
def test_only_a_socket_is_a_socket(impostor: Any) -> None:
    for call in calls_of(impostor):
        with pytest.raises(TypeError):
            call()


@pytest.mark.parametrize("limit", ["1", None, 1.5], ids=repr)
def test_the_limit_is_an_integer(context: Context, limit: Any) -> None:
    _, pull = pair_of(context, zmq.PUSH, zmq.PULL)
    with pytest.raises(TypeError):
        pump.recv_many(pull, limit)


def test_ten_thousand_messages_leak_nothing(context: Context) -> None:
    dealer, router = pair_of(context, zmq.DEALER, zmq.ROUTER)
    router.router_mandatory = True
    introduce(dealer, router)
    frame = os.urandom(100)
    batch = [[b"left", frame, frame], [b"nobody", frame], (b"left", frame)]
    bad: Any = [[b"left", frame, None]]

    def churn(rounds: int) -> None:
        for _ in range(rounds):
            assert len(pump.send_many(router, batch)) == 1
            assert len(pump.recv_many(dealer, 10)) == 2
            with pytest.raises(TypeError):
                pump.send_many(router, bad)
            assert pump.send_some(dealer, [[frame]]) == 1
            assert len(pump.recv_many(router, 10)) == 1

    # The counts name the culprit; the traced memory also sees what nobody here holds a name of.
    churn(100)
    gc.collect()
    counted = (frame, batch, batch[0], bad, dealer, router, None)
    before = [sys.getrefcount(thing) for thing in counted]
    tracemalloc.start()
    churn(100)
    traced_before = tracemalloc.get_traced_memory()[0]
    churn(2_000)
    gc.collect()
    grown = tracemalloc.get_traced_memory()[0] - traced_before
    tracemalloc.stop()
    after = [sys.getrefcount(thing) for thing in counted]
    assert all(abs(new - old) < 100 for old, new in zip(before, after, strict=True)), (before, after)
    assert grown < 50_000


def round_trip(context: Context, batch: list[list[bytes]]) -> tuple[int, list[list[bytes]]]:
    push, pull = pair_of(context, zmq.PUSH, zmq.PULL)
    with push, pull:
        taken: int = pump.send_some(push, batch)
        return taken, collect(pull, taken)


@settings(deadline=None, max_examples=200)
@given(batch=st.lists(st.lists(st.binary(max_size=300), min_size=1, max_size=40), max_size=8))
def test_whatever_is_sent_arrives(batch: list[list[bytes]]) -> None:
    with zmq.Context() as context:
        assert round_trip(context, batch) == (len(batch), [frames[:17] for frames in batch])


def chosen(wish: str, *, hide_native: bool = False) -> subprocess.CompletedProcess[str]:
    hide = "import sys; sys.modules['famulus.net._pump'] = None; " if hide_native else ""
    script = hide + "from famulus.net import native; print(native.NATIVE, native.WHY_NOT_NATIVE)"
    environment = {**os.environ, "FAMULUS_PUMP": wish}
    return subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)


def test_python_can_be_forced() -> None:
    assert chosen("python").stdout == "False FAMULUS_PUMP=python\n"


@without_native
def test_native_can_be_forced() -> None:
    assert chosen("native").stdout == "True \n"


def test_native_forced_where_it_is_absent_is_an_import_error() -> None:
    result = chosen("native", hide_native=True)
    assert result.returncode == 1
    assert "NoSuchPump: FAMULUS_PUMP=native, but there is no native pump: it is not built" in result.stderr


def test_without_native_the_twin_serves_and_says_why() -> None:
    result = chosen("", hide_native=True)
    assert result.returncode == 0
    assert result.stdout == "False it is not built\n"


def test_a_wish_that_nobody_knows_is_an_import_error() -> None:
    assert "FAMULUS_PUMP: must be native or python, not 'fast'" in chosen("fast").stderr
