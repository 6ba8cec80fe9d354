"""Both pumps pack and open parcels alike: nobody gets one unasked, order is kept, and no message is lost or doubled.

And both keep large frames alive for as long as libzmq reads them, and no longer.
"""

from __future__ import annotations

import errno
import gc
import itertools
import os
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import zmq
from hypothesis import given, settings
from hypothesis import strategies as st

from famulus.net import pump, pump_python
from famulus.wire import parcels

if pump.NATIVE:
    from famulus.net import _pump as pump_native
else:
    pump_native = None  # type: ignore[assignment]

DEADLINE_S = 10.0
MIB = 1024 * 1024
#: From here on the native pump lends a frame to libzmq instead of copying it.
LEND_MIN = 32 * 1024
ALL = 10_000  # a limit that no test reaches
_serial = itertools.count()

Context = zmq.Context[zmq.Socket[bytes]]
Socket = zmq.Socket[bytes]
Message = list[bytes]

without_native = pytest.mark.skipif(not pump.NATIVE, reason=f"no native pump: {pump.WHY_NOT_NATIVE}")

both = pytest.mark.parametrize(
    "twin",
    [pytest.param(pump_native, marks=without_native, id="native"), pytest.param(pump_python, id="python")],
)
from_each_to_each = pytest.mark.parametrize(
    ("sender", "receiver"),
    [
        pytest.param(pump_native, pump_native, marks=without_native, id="native to native"),
        pytest.param(pump_native, pump_python, marks=without_native, id="native to python"),
        pytest.param(pump_python, pump_native, marks=without_native, id="python to native"),
        pytest.param(pump_python, pump_python, id="python to python"),
    ],
)


@contextmanager
def star(
    names: Sequence[bytes] = (b"left",), hwm: int = 0, address: str = ""
) -> Iterator[tuple[Socket, dict[bytes, Socket]]]:
    """A ROUTER, and DEALERs of these names that it knows. A high-water mark of 0 is none."""
    context: Context = zmq.Context()
    sockets = [context.socket(kind) for kind in (zmq.ROUTER, *[zmq.DEALER] * len(names))]
    router, dealers = sockets[0], sockets[1:]
    try:
        for socket in sockets:
            socket.sndhwm = socket.rcvhwm = hwm
        router.router_mandatory = True
        router.bind(address or f"inproc://parcels-{next(_serial)}")
        for name, dealer in zip(names, dealers, strict=True):
            dealer.routing_id = name
            dealer.connect(router.get_string(zmq.LAST_ENDPOINT).rstrip("\0"))
            dealer.send(b"hello")  # a ROUTER knows a peer once it has heard from it
            assert router.poll(int(DEADLINE_S * 1000))
            assert router.recv_multipart() == [name, b"hello"]
        yield router, dict(zip(names, dealers, strict=True))
    finally:
        context.destroy(linger=0)


def on_the_wire(socket: Socket) -> list[Message]:
    """What really came, with parcels closed."""
    return pump_python.recv_many(socket, ALL)


def small(count: int, first: int = 0) -> list[Message]:
    return [[b"e", b"header", b"%d" % number] for number in range(first, first + count)]


def large(mark: bytes) -> Message:
    """Too large for a parcel."""
    return [b"e", b"header", mark * (parcels.MESSAGE_BYTES_MAX + 1)]


def to(peer: bytes, messages: Sequence[Message]) -> list[Message]:
    return [[peer, *message] for message in messages]


def rotated(*rows: Sequence[Message]) -> list[Message]:
    """The first of each row, then the second of each."""
    return [message for column in zip(*rows, strict=True) for message in column]


# -- all arrive, in order -------------------------------------------------------------------------------------------

#: The native pump sorts by a hash of 64 values, and for the first two it is the same.
PEERS = (b"a", b"\xa1", b"b", b"a longer name")

small_messages = st.lists(st.binary(max_size=20), min_size=3, max_size=3)
#: With the other two frames these make up a full parcel of some, the largest that fits, the smallest that does not,
#: and some that are lent.
sized_messages = st.builds(
    lambda size, fill: [b"e", b"header", bytes([fill]) * size],
    st.sampled_from([2000, 8000, 8185, 8186, LEND_MIN - 1, LEND_MIN, 40_000]),
    st.integers(0, 255),
)
#: None of them begins like a parcel: one frame alone could be one.
other_messages = st.lists(st.binary(max_size=5).map(lambda frame: b"p" + frame), min_size=1, max_size=5)
batches = st.lists(
    st.tuples(st.sampled_from(PEERS), small_messages | small_messages | sized_messages | other_messages), max_size=40
)


@from_each_to_each
@settings(deadline=None, max_examples=50)
@given(batch=batches, receivers=st.sets(st.sampled_from(PEERS)))
def test_every_peer_gets_its_messages_in_order_and_parcels_only_if_it_takes_them(
    sender: ModuleType, receiver: ModuleType, batch: list[tuple[bytes, Message]], receivers: set[bytes]
) -> None:
    with star(PEERS) as (router, dealers):
        assert sender.send_parcels(router, [[peer, *message] for peer, message in batch], receivers) == []
        for peer, dealer in dealers.items():
            came = receiver.recv_parcels(dealer, ALL, None) if peer in receivers else receiver.recv_many(dealer, ALL)
            assert came == [message for to_whom, message in batch if to_whom == peer]


@from_each_to_each
@settings(deadline=None, max_examples=50)
@given(batch=batches)
def test_a_router_gets_all_messages_of_each_peer_in_order_and_notes_who_sent_parcels(
    sender: ModuleType, receiver: ModuleType, batch: list[tuple[bytes, Message]]
) -> None:
    with star(PEERS) as (router, dealers):
        by_peer = {peer: [message for from_whom, message in batch if from_whom == peer] for peer in PEERS}
        for peer, messages in by_peer.items():
            assert sender.send_some_parcels(dealers[peer], messages) == len(messages)
        senders: set[bytes] = set()
        came = receiver.recv_parcels(router, ALL, senders)
        assert {peer: [frames[1:] for frames in came if frames[0] == peer] for peer in PEERS} == by_peer
        assert senders == {peer for peer, messages in by_peer.items() if any(map(parcels.fits, messages))}


@without_native
@settings(deadline=None, max_examples=100)
@given(messages=st.lists(small_messages | sized_messages | other_messages, max_size=40))
def test_the_twins_pack_alike(messages: list[Message]) -> None:
    with star() as (router, dealers):
        assert pump_native.send_some_parcels(dealers[b"left"], messages) == len(messages)
        native = on_the_wire(router)
        assert pump_python.send_some_parcels(dealers[b"left"], messages) == len(messages)
        assert native == on_the_wire(router)


#: Mostly zeros, so that a good part of them are parcels: seven zeros are an empty message.
nearly_parcels = st.lists(st.sampled_from([0] * 12 + [1, 2, 255]), max_size=60).map(lambda rest: bytes([1, *rest]))


@without_native
@settings(deadline=None, max_examples=200)
@given(frame=nearly_parcels | st.binary(), from_router=st.booleans())
def test_the_twins_open_any_frame_alike(frame: bytes, from_router: bool) -> None:
    with star() as (router, dealers):
        came, noted = [], []
        for twin in (pump_native, pump_python):
            senders: set[bytes] = set()
            if from_router:
                router.send_multipart([b"left", frame])
                came.append(twin.recv_parcels(dealers[b"left"], ALL, None))
            else:
                dealers[b"left"].send(frame)
                came.append(twin.recv_parcels(router, ALL, senders))
            noted.append(senders)
        peer = [] if from_router else [b"left"]
        assert came[0] == came[1] == [[*peer, *message] for message in parcels.read(frame) or [[frame]]]
        assert noted[0] == noted[1] == ({b"left"} if parcels.read(frame) and not from_router else set())


@from_each_to_each
def test_many_peers_are_served_at_once(sender: ModuleType, receiver: ModuleType) -> None:
    """More than the native pump has groups for: what does not find room in one goes out early, but goes out."""
    names = [b"peer %d" % number for number in range(150)]
    with star(names) as (router, dealers):
        batch = rotated(*[to(name, small(4)) for name in names])
        assert sender.send_parcels(router, batch, set(names[::2])) == []
        for dealer in dealers.values():
            assert receiver.recv_parcels(dealer, ALL, None) == small(4)


# -- what travels together ------------------------------------------------------------------------------------------


@both
def test_small_messages_for_one_peer_travel_in_one_frame(twin: ModuleType) -> None:
    with star() as (router, dealers):
        assert twin.send_parcels(router, to(b"left", small(50)), {b"left"}) == []
        assert on_the_wire(dealers[b"left"]) == [[parcels.write(small(50))]]
        assert twin.send_some_parcels(dealers[b"left"], small(50)) == 50
        assert on_the_wire(router) == [[b"left", parcels.write(small(50))]]


@both
def test_also_where_those_for_others_are_between_them(twin: ModuleType) -> None:
    with star((b"a", b"b", b"c")) as (router, dealers):
        batch = rotated(to(b"a", small(20)), to(b"b", small(20, first=100)), to(b"c", small(20, first=200)))
        assert twin.send_parcels(router, batch, {b"a", b"c"}) == []
        assert on_the_wire(dealers[b"a"]) == [[parcels.write(small(20))]]
        assert on_the_wire(dealers[b"b"]) == small(20, first=100)
        assert on_the_wire(dealers[b"c"]) == [[parcels.write(small(20, first=200))]]


@both
def test_who_is_not_among_the_receivers_gets_plain_messages_only(twin: ModuleType) -> None:
    with star() as (router, dealers):
        assert twin.send_parcels(router, to(b"left", small(50)), set()) == []
        assert twin.send_parcels(router, to(b"left", small(50, first=50)), {b"lef", b"left2", b"LEFT"}) == []
        assert on_the_wire(dealers[b"left"]) == small(100)


@both
def test_a_message_alone_has_one_frame_too(twin: ModuleType) -> None:
    with star((b"a", b"b")) as (router, dealers):
        assert twin.send_parcels(router, [*to(b"a", small(1)), *to(b"b", small(1))], {b"a", b"b"}) == []
        assert on_the_wire(dealers[b"a"]) == on_the_wire(dealers[b"b"]) == [[parcels.write(small(1))]]
        assert twin.send_parcels(router, to(b"a", small(1)), {b"a"}) == []
        assert on_the_wire(dealers[b"a"]) == [[parcels.write(small(1))]]
        assert twin.send_some_parcels(dealers[b"a"], small(1)) == 1
        assert on_the_wire(router) == to(b"a", [[parcels.write(small(1))]])


@both
def test_but_not_for_those_who_take_no_parcels(twin: ModuleType) -> None:
    with star((b"a", b"b")) as (router, dealers):
        assert twin.send_parcels(router, to(b"a", small(1)), {b"b"}) == []
        assert on_the_wire(dealers[b"a"]) == small(1)


@both
def test_a_large_message_goes_alone_and_keeps_its_place(twin: ModuleType) -> None:
    batch = [*small(2), large(b"x"), *small(2, first=2), large(b"y"), large(b"z"), *small(1, first=4)]
    expected = [
        [parcels.write(small(2))],
        large(b"x"),
        [parcels.write(small(2, first=2))],
        large(b"y"),
        large(b"z"),
        [parcels.write(small(1, first=4))],
    ]
    with star() as (router, dealers):
        assert twin.send_parcels(router, to(b"left", batch), {b"left"}) == []
        assert on_the_wire(dealers[b"left"]) == expected
        assert twin.send_some_parcels(dealers[b"left"], batch) == len(batch)
        assert on_the_wire(router) == to(b"left", expected)


@both
@pytest.mark.parametrize(
    "other",
    [
        pytest.param([b"one"], id="one frame"),
        pytest.param([b"one", b"two"], id="two frames"),
        pytest.param([b"one", b"two", b"three", b"four"], id="four frames"),
        # Its length would not fit into the one byte that there is for it.
        pytest.param([b"e" * 256, b"header", b"body"], id="long envelope"),
    ],
)
def test_a_message_of_another_shape_goes_alone_and_keeps_its_place(twin: ModuleType, other: Message) -> None:
    batch = [*small(3), other, *small(3, first=3)]
    expected = [[parcels.write(small(3))], other, [parcels.write(small(3, first=3))]]
    with star() as (router, dealers):
        assert twin.send_parcels(router, to(b"left", batch), {b"left"}) == []
        assert on_the_wire(dealers[b"left"]) == expected
        assert twin.send_some_parcels(dealers[b"left"], batch) == len(batch)
        assert on_the_wire(router) == to(b"left", expected)


@both
@pytest.mark.parametrize(
    ("messages", "counts"),
    [
        pytest.param([[b"", b"", b""]] * 2500, [1024, 1024, 452], id="many"),
        pytest.param([[b"", b"", b"x" * 8192]] * 8, [3, 3, 2], id="much"),
    ],
)
def test_a_full_parcel_is_followed_by_another(twin: ModuleType, messages: list[Message], counts: list[int]) -> None:
    with star() as (router, dealers):
        assert twin.send_parcels(router, to(b"left", messages), {b"left"}) == []
        assert twin.send_some_parcels(dealers[b"left"], messages) == len(messages)
        frames = [frame for (frame,) in on_the_wire(dealers[b"left"])]
        assert [frame for _, frame in on_the_wire(router)] == frames
        assert [len(parcels.read(frame)) for frame in frames] == counts
        assert [message for frame in frames for message in parcels.read(frame)] == messages


# -- what is opened -------------------------------------------------------------------------------------------------


@both
def test_only_real_parcels_make_a_sender(twin: ModuleType) -> None:
    names = [b"parcel", b"plain", b"malformed", b"many frames"]
    with star(names) as (router, dealers):
        dealers[b"parcel"].send(parcels.write(small(1)))
        dealers[b"plain"].send_multipart(small(1)[0])
        dealers[b"malformed"].send(parcels.write(small(2)) + b"x")
        dealers[b"many frames"].send_multipart([b"e", parcels.write(small(2))])
        senders = {b"known before"}
        came = {frames[0]: frames[1:] for frames in twin.recv_parcels(router, ALL, senders)}
        assert senders == {b"known before", b"parcel"}
        assert came == {
            b"parcel": small(1)[0],
            b"plain": small(1)[0],
            b"malformed": [parcels.write(small(2)) + b"x"],
            b"many frames": [b"e", parcels.write(small(2))],
        }


MALFORMED = {
    "empty": b"",
    "only a version": b"\x01",
    "another version": b"\x02" + parcels.write(small(2))[1:],
    "cut": parcels.write(small(2))[:-1],
    "trailing byte": parcels.write(small(2)) + b"\x00",
    "too many messages": parcels.write([[b"", b"", b""]] * 1025),
    "longer than any frame": b"\x01" + b"\xff" * 7,
    "sum of lengths overflows": b"\x01" + b"\x01\x00\x00\xff\xff\xff\xff" + b"x" * 50,
}


@both
@pytest.mark.parametrize("frame", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_parcel_arrives_as_it_is_and_the_next_is_opened(twin: ModuleType, frame: bytes) -> None:
    """The caller sees a message of a wrong shape, and answers it like any other."""
    with star() as (router, dealers):
        for each in (frame, parcels.write(small(2)), frame):
            router.send_multipart([b"left", each])
            dealers[b"left"].send(each)
        expected = [[frame], *small(2), [frame]]
        assert twin.recv_parcels(dealers[b"left"], ALL, None) == expected
        assert twin.recv_parcels(router, ALL, set()) == to(b"left", expected)


@both
def test_only_the_last_parcel_exceeds_the_limit(twin: ModuleType) -> None:
    with star() as (router, dealers):
        for first in (0, 10, 20):
            dealers[b"left"].send(parcels.write(small(10, first)))
        dealers[b"left"].send_multipart(small(1, first=30)[0])
        came: list[list[Message]] = [twin.recv_parcels(router, limit, set()) for limit in (0, 1, 11, 10, 10)]
    assert [len(batch) for batch in came] == [0, 10, 20, 1, 0]
    assert [message for batch in came for message in batch] == to(b"left", small(31))


@both
def test_the_limit_is_kept_among_plain_messages(twin: ModuleType) -> None:
    with star() as (router, dealers):
        for message in small(5):
            dealers[b"left"].send_multipart(message)
        assert [len(twin.recv_parcels(router, 2, set())) for _ in range(4)] == [2, 2, 1, 0]


@both
def test_a_message_too_long_is_cut_as_ever(twin: ModuleType) -> None:
    with star() as (router, dealers):
        frames = [b"%d" % number for number in range(40)]
        assert twin.send_some_parcels(dealers[b"left"], [*small(2), frames, *small(2)]) == 5
        came = twin.recv_parcels(router, ALL, set())
        assert came == [*to(b"left", small(2)), [b"left", *frames[: pump.FRAMES_MAX]], *to(b"left", small(2))]


# -- refusals -------------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize("receivers", [{b"left", b"nobody"}, {b"nobody"}, set()], ids=["both", "nobody", "none"])
def test_every_message_for_an_unknown_peer_is_named_and_the_others_are_served(
    twin: ModuleType, receivers: set[bytes]
) -> None:
    with star() as (router, dealers):
        messages = [*small(10), large(b"x"), *small(5, first=10)]
        batch = rotated(to(b"nobody", messages), to(b"left", messages))
        refused = twin.send_parcels(router, batch, receivers)
        assert refused == [(index, errno.EHOSTUNREACH) for index in range(0, 32, 2)]
        assert twin.recv_parcels(dealers[b"left"], ALL, None) == messages


@both
@pytest.mark.parametrize("receivers", [{b"left", b"nobody"}, set()], ids=["in parcels", "plainly"])
def test_a_single_message_for_an_unknown_peer_is_named(twin: ModuleType, receivers: set[bytes]) -> None:
    with star() as (router, dealers):
        assert twin.send_parcels(router, to(b"nobody", small(1)), receivers) == [(0, errno.EHOSTUNREACH)]
        assert twin.send_parcels(router, to(b"left", small(1)), receivers) == []
        assert twin.recv_parcels(dealers[b"left"], ALL, None) == small(1)


@both
def test_nothing_of_a_parcel_that_does_not_fit_leaves(twin: ModuleType) -> None:
    # Four of them fill a parcel, and two times two parcels the pipe.
    messages = [[b"e", b"%d" % number, b"x" * 8000] for number in range(20)]
    with star(hwm=2) as (router, dealers):
        refused = twin.send_parcels(router, to(b"left", messages), {b"left"})
        came = [parcels.read(frame) for (frame,) in on_the_wire(dealers[b"left"])]
    assert [len(parcel) for parcel in came] == [4] * len(came)
    taken = [message for parcel in came for message in parcel]
    assert 0 < len(taken) < 20
    assert taken == messages[: len(taken)]
    assert refused == [(index, errno.EAGAIN) for index in range(len(taken), 20)]


@both
def test_a_full_peer_does_not_keep_the_others_from_being_served(twin: ModuleType) -> None:
    with star((b"full", b"idle"), hwm=1) as (router, dealers):
        while not twin.send_many(router, to(b"full", [[b"stuffing"]])):
            pass
        batch = rotated(to(b"full", small(10)), to(b"idle", small(10)))
        assert twin.send_parcels(router, batch, {b"full", b"idle"}) == [
            (index, errno.EAGAIN) for index in range(0, 20, 2)
        ]
        assert on_the_wire(dealers[b"idle"]) == [[parcels.write(small(10))]]
        assert all(message == [b"stuffing"] for message in on_the_wire(dealers[b"full"]))


@from_each_to_each
def test_send_some_parcels_stops_when_full_and_resumes(sender: ModuleType, receiver: ModuleType) -> None:
    messages = [[b"e", b"%d" % number, b"x" * (9000 if number % 7 == 0 else 3000)] for number in range(200)]
    with star(hwm=2) as (router, dealers):
        waiting = messages
        came: list[Message] = []
        first = sender.send_some_parcels(dealers[b"left"], waiting)
        assert 0 < first < 200
        waiting = waiting[first:]
        assert sender.send_some_parcels(dealers[b"left"], waiting) == 0
        end = time.monotonic() + DEADLINE_S
        while len(came) < len(messages) and time.monotonic() < end:
            came += receiver.recv_parcels(router, 3, set())
            waiting = waiting[sender.send_some_parcels(dealers[b"left"], waiting) :]
        assert came == to(b"left", messages)
        assert receiver.recv_parcels(router, ALL, set()) == []


@both
def test_without_any_peer_nothing_fits(twin: ModuleType) -> None:
    with zmq.Context() as context, context.socket(zmq.DEALER) as dealer:
        assert twin.send_some_parcels(dealer, small(5)) == 0
        assert twin.send_some_parcels(dealer, [large(b"x")]) == 0


@both
def test_nothing_to_send_is_no_error(twin: ModuleType) -> None:
    with star() as (router, dealers):
        assert twin.send_parcels(router, [], {b"left"}) == []
        assert twin.send_parcels(router, (), set()) == []
        assert twin.send_some_parcels(dealers[b"left"], ()) == 0
        assert twin.recv_parcels(router, ALL, set()) == []


# -- bad arguments --------------------------------------------------------------------------------------------------


@both
@pytest.mark.parametrize(
    "bad",
    [
        pytest.param([*small(2), [b"left", b"b", "text"]], id="str frame"),
        pytest.param([*small(2), [b"left", None, b"c"]], id="None frame"),
        pytest.param([*small(2), [bytearray(b"left"), b"b", b"c"]], id="bytearray frame"),
        pytest.param([*small(2), [b"left", b"b", memoryview(b"c")]], id="memoryview frame"),
        pytest.param([*small(2), b"message"], id="bytes message"),
        pytest.param([*small(2), iter([b"left", b"b", b"c"])], id="iterator message"),
        pytest.param(iter(small(2)), id="iterator batch"),
        pytest.param(None, id="no batch"),
    ],
)
def test_bad_types_leave_nothing_behind(twin: ModuleType, bad: Any) -> None:
    with star((b"left", b"e")) as (router, dealers):  # small messages begin with b"e"
        with pytest.raises(TypeError):
            twin.send_parcels(router, bad, {b"left", b"e"})
        with pytest.raises(TypeError):
            twin.send_some_parcels(dealers[b"left"], bad)
        assert [on_the_wire(socket) for socket in (router, *dealers.values())] == [[], [], []]
        # Nor half a message, which would become part of the next.
        assert twin.send_parcels(router, to(b"left", small(2)), {b"left"}) == []
        assert on_the_wire(dealers[b"left"]) == [[parcels.write(small(2))]]


@both
def test_a_peer_with_a_hash_of_its_own_breaks_nothing(twin: ModuleType) -> None:
    """It runs Python code in the middle of the pump: this one takes away the messages that are being sent."""

    class Odd(bytes):
        def __hash__(self) -> int:
            batch.clear()
            raise RuntimeError

    batch = [[Odd(b"left"), *message] for message in small(100)]
    with star() as (router, dealers):
        with suppress(RuntimeError):
            assert twin.send_parcels(router, batch, {b"left"}) == []
        assert on_the_wire(dealers[b"left"]) == (small(100) if batch else [])


@both
def test_a_message_without_frames_is_refused(twin: ModuleType) -> None:
    with star() as (router, dealers):
        with pytest.raises(ValueError, match="message 1 has no frames"):
            twin.send_parcels(router, [[b"left", b"good"], []], {b"left"})
        with pytest.raises(ValueError, match="message 2 has no frames"):
            twin.send_some_parcels(dealers[b"left"], [*small(2), []])
        assert on_the_wire(router) == on_the_wire(dealers[b"left"]) == []


@both
@pytest.mark.parametrize("peers", [None, [b"left"], {b"left": 1}, frozenset({b"left"}), b"left"], ids=repr)
def test_peers_are_a_set(twin: ModuleType, peers: Any) -> None:
    with star() as (router, dealers):
        with pytest.raises(TypeError):
            twin.send_parcels(router, to(b"left", small(2)), peers)
        assert on_the_wire(dealers[b"left"]) == []
        if peers is not None:
            dealers[b"left"].send(parcels.write(small(2)))
            with pytest.raises(TypeError):
                twin.recv_parcels(router, ALL, peers)
            assert twin.recv_parcels(router, ALL, set()) == to(b"left", small(2)), "nothing was lost"


def calls_of(twin: ModuleType, socket: Any) -> list[Callable[[], Any]]:
    return [
        lambda: twin.recv_parcels(socket, 1, None),
        lambda: twin.recv_parcels(socket, 1, set()),
        lambda: twin.send_parcels(socket, to(b"left", small(2)), {b"left"}),
        lambda: twin.send_some_parcels(socket, small(2)),
    ]


@both
@pytest.mark.parametrize("impostor", [None, 17, object()], ids=["None", "17", "object"])
def test_only_a_socket_is_a_socket(twin: ModuleType, impostor: Any) -> None:
    for call in calls_of(twin, impostor):
        with pytest.raises(TypeError):
            call()


@both
def test_a_closed_socket_is_an_error_and_no_crash(twin: ModuleType) -> None:
    with zmq.Context() as context:
        socket = context.socket(zmq.DEALER)
        socket.close()
        for call in calls_of(twin, socket):
            with pytest.raises(zmq.ZMQError) as caught:
                call()
            assert caught.value.errno == zmq.ENOTSOCK


@both
@pytest.mark.parametrize("limit", ["1", None, 1.5], ids=repr)
def test_the_limit_is_an_integer(twin: ModuleType, limit: Any) -> None:
    with star() as (router, _), pytest.raises(TypeError):
        twin.recv_parcels(router, limit, set())


@both
def test_the_number_of_arguments_is_fixed(twin: ModuleType) -> None:
    with star() as (router, _):
        with pytest.raises(TypeError):
            twin.recv_parcels(router, 1)
        with pytest.raises(TypeError):
            twin.send_parcels(router, [])
        with pytest.raises(TypeError):
            twin.send_some_parcels(router, [], set())


# -- memory ---------------------------------------------------------------------------------------------------------


@both
def test_thousands_of_parcels_leak_nothing(twin: ModuleType) -> None:
    frame = os.urandom(100)
    message = [b"e", frame, frame]
    batch = [*to(b"left", [message] * 5), *to(b"nobody", [message] * 5), (b"left", frame)]
    bad = [*to(b"left", [message] * 2), [b"left", frame, None]]
    receivers, senders = {b"left", b"nobody"}, set[bytes]()
    with star() as (router, dealers):
        dealer = dealers[b"left"]

        def churn(rounds: int) -> None:
            for _ in range(rounds):
                assert len(twin.send_parcels(router, batch, receivers)) == 5
                assert len(twin.recv_parcels(dealer, 10, None)) == 6
                with pytest.raises(TypeError):
                    twin.send_parcels(router, bad, receivers)
                assert twin.send_some_parcels(dealer, [message, message, [frame]]) == 3
                assert len(twin.recv_parcels(router, 10, senders)) == 3

        # The counts name the culprit; the traced memory also sees what nobody here holds a name of.
        churn(20)
        gc.collect()
        counted = (frame, message, batch, batch[0], bad, receivers, senders, *receivers, dealer, router, None)
        before = [sys.getrefcount(thing) for thing in counted]
        tracemalloc.start()
        churn(20)
        traced_before = tracemalloc.get_traced_memory()[0]
        churn(300)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - traced_before
        tracemalloc.stop()
        after = [sys.getrefcount(thing) for thing in counted]
    assert all(abs(new - old) < 100 for old, new in zip(before, after, strict=True)), (before, after)
    assert grown < 50_000


def comes_back(twin: ModuleType, socket: Socket, count: Callable[[], int], wanted: int) -> bool:
    """Whether the references to a body become so few: the next call of the pump lets go of what libzmq gave back."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        twin.recv_many(socket, 0)
        if count() == wanted:
            return True
        time.sleep(0.001)
    return False


@both
@pytest.mark.parametrize("transport", ["inproc", "ipc", "tcp"])
@pytest.mark.parametrize("size", [LEND_MIN - 1, LEND_MIN, MIB], ids=["copied", "lent", "1 MiB"])
def test_a_body_arrives_intact_although_its_sender_drops_it_at_once(
    twin: ModuleType, tmp_path: Path, transport: str, size: int
) -> None:
    address = {"inproc": "", "ipc": f"ipc://{tmp_path}/parcels", "tcp": "tcp://127.0.0.1:*"}[transport]
    with star(address=address) as (router, dealers):
        came: list[Message] = []
        made = 8
        # Made in the call, so that nobody else holds them. Each has bytes that are wrong in any other place.
        taken = twin.send_some_parcels(dealers[b"left"], [[b"e", b"%d" % n, numbered(n, size)] for n in range(made)])
        assert taken == made
        gc.collect()
        overwriting = [b"\xff" * size for _ in range(2 * made)]
        end = time.monotonic() + DEADLINE_S
        while len(came) < made and time.monotonic() < end:
            router.poll(100)
            came += twin.recv_parcels(router, ALL, set())
        assert [frames[2] for frames in came] == [b"%d" % n for n in range(made)]
        assert all(frames[3] == numbered(n, size) for n, frames in enumerate(came))
        del overwriting


def numbered(number: int, size: int) -> bytes:
    return (b"".join(b"%06d" % (number * 1000 + n) for n in range(1000)) * (size // 6000 + 1))[:size]


@both
@pytest.mark.parametrize("address", ["", "tcp://127.0.0.1:*"], ids=["inproc", "tcp"])
def test_a_body_that_was_read_is_let_go_of(twin: ModuleType, address: str) -> None:
    """Over TCP it is libzmq's own thread that is done with it first."""
    body = b"x" * MIB
    with star(address=address) as (router, dealers):
        before = sys.getrefcount(body)
        assert twin.send_some(dealers[b"left"], [[body, body]]) == 1
        assert twin.send_some_parcels(dealers[b"left"], [[b"e", b"h", body]]) == 1
        for _ in range(2):
            assert router.poll(int(DEADLINE_S * 1000))
            assert router.recv_multipart()[-1] == body
        assert comes_back(twin, router, lambda: sys.getrefcount(body), before)


@both
def test_a_body_that_was_refused_is_let_go_of(twin: ModuleType) -> None:
    body = b"x" * MIB
    message = [b"e", b"h", body]
    with star(hwm=1) as (router, _), zmq.Context() as context, context.socket(zmq.DEALER) as alone:
        while not twin.send_many(router, to(b"left", [[b"stuffing"]])):
            pass
        batch = [*to(b"left", [message]), *to(b"nobody", [message])]
        reasons = [(0, errno.EAGAIN), (1, errno.EHOSTUNREACH)]
        sends: list[tuple[Callable[[], Any], Any]] = [
            (lambda: twin.send_many(router, batch), reasons),
            (lambda: twin.send_parcels(router, batch, {b"left", b"nobody"}), reasons),
            (lambda: twin.send_some(alone, [message]), 0),
            (lambda: twin.send_some_parcels(alone, [message]), 0),
        ]
        before = sys.getrefcount(body)
        for send, answer in sends:
            assert send() == answer
            twin.recv_many(router, 1)
            assert sys.getrefcount(body) == before


@both
def test_a_body_that_nobody_read_is_let_go_of_with_its_socket(twin: ModuleType) -> None:
    body = b"x" * MIB
    before = sys.getrefcount(body)
    with star() as (_, dealers):
        assert twin.send_some_parcels(dealers[b"left"], [[b"e", b"h", body]]) == 1
    with star() as (router, _):
        assert comes_back(twin, router, lambda: sys.getrefcount(body), before)


def memory_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


@both
def test_hundreds_of_large_bodies_do_not_pile_up(twin: ModuleType) -> None:
    with star() as (router, dealers):

        def pass_on(count: int) -> None:
            for number in range(count):
                assert twin.send_some_parcels(dealers[b"left"], [[b"e", b"h", bytes([number]) * MIB]]) == 1
                (message,) = twin.recv_parcels(router, 10, set())
                assert len(message[3]) == MIB

        pass_on(10)
        before = memory_kib()
        pass_on(200)
        assert memory_kib() - before < 40 * 1024


FAULTS = """
import resource, sys, zmq
from famulus.net import pump
context = zmq.Context()
left, right = context.socket(zmq.PAIR), context.socket(zmq.PAIR)
left.bind("inproc://faults"); right.connect("inproc://faults")
body, kept = b"x" * (1 << 20), []
def pass_on(count):
    for _ in range(count):
        pump.send_some(right, [[body]] * 8)
        kept[:] = pump.recv_many(left, 8)  # those before them are freed only now
pass_on(3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
pass_on(20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
kept.clear()
context.destroy(linger=0)
"""


@without_native
@pytest.mark.skipif("glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="of glibc's malloc")
def test_large_bodies_use_memory_again_instead_of_asking_for_it_anew() -> None:
    """160 MiB pass by, in pages of 4 KiB: 40,960 of them, each of which would be a page fault and a page to clear."""
    ran = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 4000
