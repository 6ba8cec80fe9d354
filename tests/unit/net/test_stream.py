"""Both streams keep the same promises: whole messages, nothing blocked, nothing lost, the other side not trusted."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from itertools import cycle

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import parcels

from famulus.net import native, stream_python
from famulus.net.native import Stream
from famulus.wire import zmtp

if native.NATIVE:
    from famulus.net import _pump as pump_native

PING = zmtp.framed_command(zmtp.PING)
FRAME_MAX = 4 * 1024 * 1024
New = Callable[[socket.socket, int], Stream]
Pair = tuple[socket.socket, socket.socket]

without_native = pytest.mark.skipif(not native.NATIVE, reason=f"no native pump: {native.WHY_NOT_NATIVE}")


@pytest.fixture(params=[pytest.param("native", marks=without_native), "python"])
def new(request: pytest.FixtureRequest) -> New:
    return pump_native.Stream if request.param == "native" else stream_python.Stream


@pytest.fixture
def pair() -> Iterator[Pair]:
    left, right = socket.socketpair()
    left.setblocking(False)
    right.setblocking(False)
    yield left, right
    left.close()
    right.close()


def frame(content: bytes, flags: int = 0) -> bytes:
    if len(content) < 256:
        return bytes([flags, len(content)]) + content
    return bytes([flags | zmtp.LONG]) + len(content).to_bytes(8, "big") + content


def framed(message: Sequence[bytes]) -> bytes:
    return b"".join(frame(each, zmtp.MORE) for each in message[:-1]) + frame(message[-1])


def read_all(stream: Stream) -> list[list[bytes]]:
    """Until a read brings nothing."""
    messages: list[list[bytes]] = []
    received = -1
    while received != stream.received:
        received = stream.received
        messages += stream.recv()
    return messages


def exchange(sender: Stream, receiver: Stream, messages: Sequence[Sequence[bytes]]) -> list[list[bytes]]:
    """Send all, with somebody at the other end who reads whenever there is no room."""
    arrived: list[list[bytes]] = []
    sent = 0
    while sent < len(messages) or sender.unsent:
        sent += sender.send(messages[sent:])
        arrived += read_all(receiver)
    return arrived + read_all(receiver)


SHAPES: dict[str, Sequence[bytes]] = {
    "a task": [b"envelope", b"header", b"body"],
    "one empty frame": [b""],
    "one frame": [b"x"],
    "empty between": [b"a", b"", b"b", b""],
    "around the short length": [b"x" * size for size in (254, 255, 256, 257)],
    "around the inbox": [b"x" * (64 * 1024 - size) for size in (0, 1, 8, 9, 10)],
    "large": [b"e", b"h", b"x" * 8192],
    "1 MiB": [b"e", b"h", os.urandom(2**20)],
    "16 frames": [b"%d" % number for number in range(16)],
    "what looks like a parcel, and is not alone": [b"a", parcels.write([[b"e", b"h", b"b"]])],
    "tuple": (b"a", b"b"),
}


class Narrow:
    """A socket with room for a few bytes at a time, whenever it is asked."""

    def __init__(self) -> None:
        self.taken = b""

    def sendmsg(self, pieces: list[bytes], *others: object) -> int:
        some = b"".join(pieces)[:7]
        self.taken += some
        return len(some)


def test_what_is_left_of_a_message_leaves_before_the_next() -> None:
    narrow = Narrow()
    stream = stream_python.Stream(narrow, FRAME_MAX)  # type: ignore[arg-type]
    messages = [[b"e", b"h", b"%d" % number, b""] for number in range(3)]
    for message in messages:
        assert stream.send([message, [b"another"]]) == 2
        assert stream.unsent
    stream.flush()
    assert narrow.taken == b"".join(framed(message) + framed([b"another"]) for message in messages)


@pytest.mark.parametrize("message", SHAPES.values(), ids=SHAPES.keys())
def test_every_shape_arrives_as_it_left(new: New, pair: Pair, message: Sequence[bytes]) -> None:
    left, right = new(pair[0], FRAME_MAX), new(pair[1], FRAME_MAX)
    assert exchange(left, right, [message] * 3) == [list(message)] * 3
    assert not right.ended


def test_small_messages_travel_together(new: New, pair: Pair) -> None:
    stream = new(pair[0], FRAME_MAX)
    messages = [[b"e", b"h", b"%d" % number] for number in range(100)]
    assert stream.send(messages) == 100
    sent = pair[1].recv(1 << 20)
    assert sent == b"".join(map(framed, messages))


def test_all_shapes_travel_together_and_in_order(new: New, pair: Pair) -> None:
    stream = new(pair[0], FRAME_MAX)
    messages = [[b"alone"], [b"e", b"h", b"b"], [b"four", b"", b"", b""], [b"e", b"h", b"x" * 9000]]
    assert stream.send(messages) == 4
    assert pair[1].recv(1 << 20) == b"".join(map(framed, messages))


#: By their sizes, with those that matter; none of them could be taken for a parcel.
_sizes = st.sampled_from([0, 1, 255, 256, 8191, 8192, 8193, 65_526, 65_527, 65_528, 100_000]) | st.integers(0, 300)
_frames = st.lists(
    st.builds(lambda size, byte: bytes([byte]) * size, _sizes, st.integers(2, 255)), min_size=1, max_size=5
)
_messages = st.lists(_frames, max_size=10)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=_messages, cuts=st.lists(st.integers(1, 50_000), min_size=1, max_size=10))
def test_however_it_is_cut_on_its_way_it_arrives(new: New, messages: list[list[bytes]], cuts: list[int]) -> None:
    left, right = socket.socketpair()
    with left, right:
        right.setblocking(False)
        stream = new(right, FRAME_MAX)
        sent = b"".join(map(framed, messages))
        arrived: list[list[bytes]] = []
        at = 0
        for size in cycle(cuts):
            if at >= len(sent):
                break
            # Small steps through the first, so that every place of a head is cut at some time.
            size = 1000 + size if at > 2000 else 1 + size % 100
            left.sendall(sent[at : at + size])
            at += size
            arrived += stream.recv()
        assert arrived + read_all(stream) == messages
        assert not stream.ended


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(messages=_messages)
@without_native
def test_both_write_the_same(messages: list[list[bytes]]) -> None:
    written = []
    for each in (pump_native.Stream, stream_python.Stream):
        left, right = socket.socketpair()
        with left, right:
            left.setblocking(False)
            right.setblocking(False)
            stream: Stream = each(left, FRAME_MAX)
            sent, received = 0, b""
            while sent < len(messages) or stream.unsent:
                sent += stream.send(messages[sent:])
                with suppress(BlockingIOError):
                    received += right.recv(1 << 20)
            written.append(received)
    assert written[0] == written[1]


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chunks=st.lists(st.binary(max_size=100), max_size=20))
def test_whatever_comes_both_take_it_alike(chunks: list[bytes]) -> None:
    seen = []
    for each in (stream_python.Stream, pump_native.Stream if native.NATIVE else stream_python.Stream):
        left, right = socket.socketpair()
        with left, right:
            right.setblocking(False)
            stream: Stream = each(right, FRAME_MAX)
            messages: list[list[bytes]] = []
            for chunk in chunks:
                left.sendall(chunk)
                messages += read_all(stream)
            seen.append((messages, list(stream.commands), stream.ended))
    assert seen[0] == seen[1]


BREACHES = {
    "flags that are none": b"\x08\x00",
    "a command with more": b"\x05\x00",
    "too large": b"\x02" + (FRAME_MAX + 1).to_bytes(8, "big"),
    "far too large": b"\x02" + b"\xff" * 8,
    "a command that is too large": b"\x06" + (5000).to_bytes(8, "big"),
}


@pytest.mark.parametrize("breach", BREACHES.values(), ids=BREACHES.keys())
def test_a_breach_ends_it_and_what_came_before_counts(new: New, pair: Pair, breach: bytes) -> None:
    stream = new(pair[1], FRAME_MAX)
    pair[0].sendall(frame(b"before") + breach + frame(b"after"))
    assert stream.recv() == [[b"before"]]
    assert stream.ended.startswith("it sends")
    assert stream.recv() == []


def test_a_flood_of_commands_ends_it(new: New, pair: Pair) -> None:
    stream = new(pair[1], FRAME_MAX)
    pair[0].sendall(PING * 64)
    stream.recv()
    assert stream.commands == [zmtp.PING] * 64
    stream.commands.clear()
    pair[0].sendall(PING * 65)
    stream.recv()
    assert stream.ended == "it sends too many commands"


def test_commands_between_the_frames_of_a_message(new: New, pair: Pair) -> None:
    stream = new(pair[1], FRAME_MAX)
    pair[0].sendall(frame(b"a", zmtp.MORE) + PING + frame(b"b"))
    assert stream.recv() == [[b"a", b"b"]]
    assert len(stream.commands) == 1


def test_a_message_too_long_is_cut_and_the_next_is_whole(new: New, pair: Pair) -> None:
    stream = new(pair[1], FRAME_MAX)
    frames = [b"%d" % number for number in range(40)]
    pair[0].sendall(framed(frames) + framed([b"next"]))
    assert stream.recv() == [frames[: stream_python.FRAMES_MAX + 1], [b"next"]]


def test_what_came_before_the_end_is_given(new: New, pair: Pair) -> None:
    stream = new(pair[1], FRAME_MAX)
    pair[0].sendall(frame(b"last") + frame(b"half")[:3])
    pair[0].close()
    assert stream.recv() == [[b"last"]]
    assert stream.recv() == []
    assert stream.ended == "it was closed by the other side"


def test_half_of_a_large_frame_and_then_the_end(new: New, pair: Pair) -> None:
    stream = new(pair[1], FRAME_MAX)
    pair[0].sendall(frame(bytes(200_000))[:150_000])
    pair[0].close()
    assert read_all(stream) == []
    assert stream.ended


def test_nothing_is_there(new: New, pair: Pair) -> None:
    stream = new(pair[1], FRAME_MAX)
    assert stream.recv() == []
    assert stream.received == 0
    assert not stream.ended
    assert stream.flush()


def test_without_room_nothing_is_taken_twice_and_nothing_is_lost(new: New, pair: Pair) -> None:
    for each in pair:
        each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    left, right = new(pair[0], FRAME_MAX), new(pair[1], FRAME_MAX)
    messages = [[b"%d" % number, b"h", os.urandom(10_000)] for number in range(20)]
    taken = left.send(messages)
    assert 0 < taken < 20
    assert left.unsent
    assert left.send(messages[taken:]) == 0
    assert not left.flush()
    assert exchange(left, right, messages[taken:]) == messages


def test_a_message_of_which_nothing_left_is_not_taken(new: New, pair: Pair) -> None:
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    with suppress(BlockingIOError):
        while True:
            pair[0].send(b"x" * 100)
    stream = new(pair[0], FRAME_MAX)
    assert stream.send([[b"e", b"h", b"b"]]) == 0
    assert not stream.unsent


def test_bytes_go_behind_what_is_left(new: New, pair: Pair) -> None:
    pair[0].setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    left, right = new(pair[0], FRAME_MAX), new(pair[1], FRAME_MAX)
    large = [b"e", b"h", os.urandom(500_000)]
    assert left.send([large]) == 1
    left.command(zmtp.PING)
    assert left.unsent
    assert exchange(left, right, [[b"next"]]) == [large, [b"next"]]
    assert right.commands == [zmtp.PING]


def test_writing_to_nobody_raises_no_signal(new: New, pair: Pair) -> None:
    """Many programs let SIGPIPE end them, as it does by default."""
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        stream = new(pair[0], FRAME_MAX)
        pair[1].close()
        assert stream.send([[b"x"]]) == 0
        stream.command(b"x")
        assert not stream.flush()
    finally:
        signal.signal(signal.SIGPIPE, before)


def test_writing_to_nobody_takes_nothing_and_reading_tells(new: New, pair: Pair) -> None:
    left = new(pair[0], FRAME_MAX)
    pair[1].sendall(frame(b"last words"))
    pair[1].close()
    assert left.send([[b"e", b"h", b"b"]]) == 0
    assert left.recv() == [[b"last words"]]
    left.recv()
    assert left.ended


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ("text", TypeError),
        ([b"no row"], TypeError),
        ([["text"]], TypeError),
        ([[b"x"], []], ValueError),
        ([[b"x"] * (stream_python.FRAMES_MAX + 1)], ValueError),
    ],
)
def test_what_is_no_message_raises_before_anything_leaves(
    new: New, pair: Pair, messages: object, error: type[Exception]
) -> None:
    stream = new(pair[0], FRAME_MAX)
    with pytest.raises(error):
        stream.send(messages)  # type: ignore[arg-type]
    with pytest.raises(BlockingIOError):
        pair[1].recv(1)
    with pytest.raises(TypeError):
        stream.command("text")  # type: ignore[arg-type]


def test_a_socket_that_is_closed_ends_it(new: New, pair: Pair) -> None:
    stream = new(pair[0], FRAME_MAX)
    pair[0].close()
    assert stream.recv() == []
    assert "Bad file descriptor" in stream.ended
    assert stream.send([[b"x"]]) == 0


def small(count: int) -> list[list[bytes]]:
    return [[b"e", b"header", b"%d" % number] for number in range(count)]


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


@pytest.mark.parametrize("malformed", MALFORMED.values(), ids=MALFORMED.keys())
def test_a_malformed_parcel_arrives_as_it_is_and_the_next_is_opened(new: New, pair: Pair, malformed: bytes) -> None:
    """The caller sees a message of a wrong shape, and answers it like any other."""
    for each in (malformed, parcels.write(small(2)), malformed):
        pair[1].sendall(frame(each))
    assert read_all(new(pair[0], FRAME_MAX)) == [[malformed], *small(2), [malformed]]


FAULTS = """
import resource, socket
from famulus.net.native import Stream
ends = socket.socketpair()
for end in ends:
    end.setblocking(False)
left, right = (Stream(end, 1 << 24) for end in ends)
body, kept = b"x" * (1 << 20), []
def pass_on(count):
    for _ in range(count):
        came = []
        for _ in range(8):
            left.send([[b"e", b"h", body]])
            while len(came) < 8 and (left.unsent or not came):
                left.flush()
                came += right.recv()
        kept[:] = came  # those before them are freed only now
pass_on(3)
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
pass_on(20)
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


@without_native
@pytest.mark.skipif("glibc" not in (os.confstr("CS_GNU_LIBC_VERSION") or ""), reason="of glibc's malloc")
def test_large_bodies_use_memory_again_instead_of_asking_for_it_anew() -> None:
    """160 MiB pass by, in pages of 4 KiB: 40,960 of them, each of which would be a page fault and a page to clear."""
    ran = subprocess.run([sys.executable, "-c", FAULTS], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 4000
