"""Both twins keep the same promises: everybody in turn, nothing lost, nothing without a bound, nobody trusted."""

from __future__ import annotations

import errno
import gc
import os
import select
import socket
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests import parcels

from famulus.core.clock import NS_PER_S
from famulus.net import connections_python, native, stream_python
from famulus.net.native import Connections
from famulus.wire import zmtp

if native.NATIVE:
    from famulus.net import _pump as pump_native

PING = zmtp.framed_command(zmtp.PING)
MIB = 1024 * 1024
MESSAGE_MAX = 4 * MIB
ALL = 1_000_000

without_native = pytest.mark.skipif(not native.NATIVE, reason=f"no native pump: {native.WHY_NOT_NATIVE}")


def frame(content: bytes, flags: int = 0) -> bytes:
    if len(content) < 256:
        return bytes([flags, len(content)]) + content
    return bytes([flags | zmtp.LONG]) + len(content).to_bytes(8, "big") + content


def framed(message: Sequence[bytes]) -> bytes:
    return b"".join(frame(each, zmtp.MORE) for each in message[:-1]) + frame(message[-1])


class Hall:
    """Connections, and the other ends of them by the names of the peers."""

    def __init__(self, twin: str, **bounds: int) -> None:
        new: Any = pump_native.Connections if twin == "native" else connections_python.Connections
        self.connections: Connections = new(
            **{
                "message_bytes_max": MESSAGE_MAX,
                "unfinished_bytes_max": 64 * MIB,
                "unsent_bytes_max": 64 * MIB,
                "unsent_all_bytes_max": 256 * MIB,
                "patience_ns": 5 * NS_PER_S,
                **bounds,
            }
        )
        self.ends: dict[bytes, socket.socket] = {}

    def enter(self, *peers: bytes) -> socket.socket:
        for peer in peers:
            ours, theirs = socket.socketpair()
            ours.setblocking(False)
            theirs.setblocking(False)
            self.connections.add(ours.detach(), peer)
            if peer in self.ends:
                self.ends[peer].close()
            self.ends[peer] = theirs
        return theirs

    def recv(self, limit: int = ALL) -> list[list[bytes]]:
        """Until there is no more."""
        messages = self.connections.recv(limit)
        while self.connections.more:
            messages += self.connections.recv(limit)
        return messages

    def send_from(self, peer: bytes, content: bytes) -> list[list[bytes]]:
        """All of it, with us reading whenever there is no room."""
        messages: list[list[bytes]] = []
        left = memoryview(content)
        while left:
            with suppress(BlockingIOError):
                left = left[self.ends[peer].send(left) :]
            messages += self.recv()
        return messages

    def read_of(self, peer: bytes, at_least: int = 0) -> bytes:
        """What has arrived there; with us writing on until it is so much."""
        got = bytearray()
        while True:
            with suppress(BlockingIOError):
                while chunk := self.ends[peer].recv(MIB):
                    got += chunk
            if len(got) >= at_least:
                return bytes(got)
            self.recv()

    def close(self) -> None:
        self.connections.close()
        for end in self.ends.values():
            end.close()


@pytest.fixture(params=[pytest.param("native", marks=without_native), "python"])
def twin(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def halls(twin: str) -> Iterator[Callable[..., Hall]]:
    opened: list[Hall] = []

    def open_one(**bounds: int) -> Hall:
        opened.append(Hall(twin, **bounds))
        return opened[-1]

    yield open_one
    for hall in opened:
        hall.close()


@pytest.fixture
def hall(halls: Callable[..., Hall]) -> Hall:
    return halls()


# -- messages -------------------------------------------------------------------------------------------------------


def test_messages_come_behind_their_peers_and_go_to_them(hall: Hall) -> None:
    hall.enter(b"ann", b"bob")
    hall.ends[b"ann"].send(framed([b"e", b"h", b"b"]) + framed([b"one"]))
    hall.ends[b"bob"].send(framed([b"", b"x"]))
    assert sorted(hall.recv()) == [[b"ann", b"e", b"h", b"b"], [b"ann", b"one"], [b"bob", b"", b"x"]]
    assert hall.connections.send([[b"bob", b"1"], [b"ann", b"2", b"3"], [b"bob", b"4"]]) == []
    assert hall.read_of(b"ann") == framed([b"2", b"3"])
    assert hall.read_of(b"bob") == framed([b"1"]) + framed([b"4"])
    assert (hall.connections.unsent, hall.connections.unfinished, len(hall.connections)) == (0, 0, 2)


def test_parcels_are_opened_and_answered_plainly(hall: Hall) -> None:
    hall.enter(b"ann", b"bob")
    messages = [[b"e", b"h", b"%d" % number] for number in range(100)]
    hall.ends[b"ann"].send(frame(parcels.write(messages)))
    assert hall.recv() == [[b"ann", *message] for message in messages]
    out = [[peer, *message] for message in messages for peer in (b"ann", b"bob")]
    assert hall.connections.send(out) == []
    for peer in (b"ann", b"bob"):
        assert hall.read_of(peer) == b"".join(map(framed, messages))


def test_large_and_small_keep_their_order(hall: Hall) -> None:
    hall.enter(b"ann")
    sizes = [0, 10, 9000, 100, 4096, 4097, 3 * MIB, 5, 70_000, 8192, 8000, 8000, 8000, 8000, 8000, 1]
    messages = [[b"%d" % number, b"h", bytes([number]) * size] for number, size in enumerate(sizes)]
    assert hall.connections.send([[b"ann", *message] for message in messages]) == []
    ours, theirs = socket.socketpair()
    with ours, theirs:
        reader = Hall("python")
        reader.connections.add(theirs.detach(), b"x")
        ours.setblocking(False)
        content, came = hall.read_of(b"ann", sum(sizes)), []
        while content:
            with suppress(BlockingIOError):
                content = content[ours.send(content) :]
            came += reader.recv()
        reader.close()
    assert came == [[b"x", *message] for message in messages]


@pytest.mark.parametrize("size", [1, 70_000, 3 * MIB])
def test_bodies_of_any_size_arrive(hall: Hall, size: int) -> None:
    hall.enter(b"ann")
    body = os.urandom(size)
    assert hall.send_from(b"ann", framed([b"e", b"h", body])) == [[b"ann", b"e", b"h", body]]
    assert hall.connections.unfinished == 0


def test_a_limit_leaves_the_rest_for_the_next_call(hall: Hall) -> None:
    hall.enter(b"ann")
    hall.ends[b"ann"].send(b"".join(framed([b"%d" % number]) for number in range(10)))
    came = []
    for _ in range(5):
        batch = hall.connections.recv(2)
        assert len(batch) == 2
        came += batch
    assert came == [[b"ann", b"%d" % number] for number in range(10)]
    assert hall.connections.recv(2) == []
    assert not hall.connections.more


def test_everybody_gets_a_turn(hall: Hall) -> None:
    """However much one of them sends, the others are heard between."""
    hall.enter(b"loud", b"ann", b"bob")
    hall.ends[b"loud"].send(framed([b"x"]) * 10_000)
    assert hall.connections.recv(1) == [[b"loud", b"x"]]
    for peer in (b"ann", b"bob"):
        hall.ends[peer].send(framed([b"hello"]))
    heard = [hall.connections.recv(1)[0][0] for _ in range(5)]
    assert {b"ann", b"bob"} <= set(heard)


def test_no_more_means_that_there_will_be_news(hall: Hall) -> None:
    """The owner watches `fd` for changes, so what was left unread would be left for ever."""
    outer = select.epoll()
    outer.register(hall.connections.fd, select.EPOLLIN | select.EPOLLET)
    hall.enter(b"ann")
    outer.poll(0)
    hall.recv()
    for size in (1, 100, 65_534, 65_536, 100_000, 200_000):
        hall.ends[b"ann"].setblocking(False)
        content = frame(bytes(size))
        sent = hall.ends[b"ann"].send(content)
        assert outer.poll(5)
        came = hall.recv()
        while sent < len(content):
            sent += hall.ends[b"ann"].send(content[sent:])
            assert outer.poll(5)
            came += hall.recv()
        assert came == [[b"ann", bytes(size)]]
        assert outer.poll(0) == []
    outer.close()


def test_others_are_watched_with_them(hall: Hall) -> None:
    left, right = socket.socketpair()
    with left, right:
        hall.connections.watch(left.fileno())
        assert hall.recv() == []
        assert hall.connections.news == []
        right.send(b"x")
        hall.enter(b"ann")
        hall.ends[b"ann"].send(framed([b"x"]))
        assert hall.recv() == [[b"ann", b"x"]]
        assert hall.connections.news == [left.fileno()]
        hall.connections.news.clear()
        hall.connections.forget(left.fileno())
        hall.recv()
        assert hall.connections.news == []


def test_whoever_is_not_read_hears_that_we_are_here_and_loses_nothing(hall: Hall) -> None:
    """A PING behind tasks that are not read yet would find no answer, and we would be taken for lost."""
    hall.enter(b"ann", b"bob")
    hall.ends[b"ann"].send(framed([b"e", b"h", b"b"]))
    assert hall.connections.recv(0) == []
    assert hall.read_of(b"ann") == zmtp.command(b"PONG", b"")
    for heard in (b"", zmtp.command(b"PONG", b"")):
        hall.ends[b"ann"].send(PING)
        assert hall.connections.recv(0) == []
        assert hall.read_of(b"ann") == heard
        hall.connections.tick(1)
    assert hall.connections.more
    assert hall.recv() == [[b"ann", b"e", b"h", b"b"]]
    assert hall.read_of(b"ann") == 2 * zmtp.command(b"PONG", b"")
    assert hall.read_of(b"bob") == b""


def test_pings_are_answered_and_other_commands_are_not(hall: Hall) -> None:
    hall.enter(b"ann")
    ping = zmtp.command(b"PING", b"\0\x0acontext")
    hall.ends[b"ann"].send(
        frame(b"a", zmtp.MORE) + ping + zmtp.command(b"SUBSCRIBE", b"") + b"\x04\x00" + PING + frame(b"b")
    )
    assert hall.recv() == [[b"ann", b"a", b"b"]]
    assert hall.read_of(b"ann") == zmtp.command(b"PONG", b"context") + zmtp.command(b"PONG", b"")


def test_pongs_that_nobody_reads_do_not_pile_up(hall: Hall) -> None:
    hall.enter(b"ann")
    for _ in range(100):
        with suppress(BlockingIOError):
            hall.ends[b"ann"].send(PING * 7000)
        hall.recv()
    assert hall.connections.unsent <= 32 * 1024
    assert len(hall.connections) == 1


# -- those who go ---------------------------------------------------------------------------------------------------


def test_what_came_before_the_end_is_given_and_then_the_end(hall: Hall) -> None:
    hall.enter(b"ann", b"bob")
    hall.ends[b"ann"].send(framed([b"last"]) + frame(b"half")[:3])
    hall.ends[b"ann"].close()
    assert hall.recv() == [[b"ann", b"last"]]
    assert hall.connections.gone == [b"ann"]
    assert hall.connections.send([[b"ann", b"x"], [b"bob", b"x"], [b"nobody", b"x"]]) == [
        (0, errno.EHOSTUNREACH),
        (2, errno.EHOSTUNREACH),
    ]
    assert len(hall.connections) == 1


def test_who_is_gone_and_was_not_looked_at_is_refused_or_found_by_reading(hall: Hall) -> None:
    hall.enter(b"ann")
    hall.ends[b"ann"].send(framed([b"last words"]))
    hall.ends[b"ann"].close()
    assert hall.connections.send([[b"ann", b"x"], [b"ann", b"y"]]) == [(0, errno.EHOSTUNREACH), (1, errno.EHOSTUNREACH)]
    assert hall.recv() == [[b"ann", b"last words"]]
    assert hall.connections.gone == [b"ann"]
    assert hall.connections.unsent == 0


def test_cut_ends_a_connection(hall: Hall) -> None:
    end = hall.enter(b"ann")
    assert hall.connections.cut(b"ann")
    assert not hall.connections.cut(b"ann")
    assert end.recv(1) == b""
    assert hall.connections.gone == [b"ann"]
    hall.enter(b"ann")  # the name is free again
    assert len(hall.connections) == 1


def test_a_name_is_given_once(hall: Hall) -> None:
    hall.enter(b"ann")
    left, right = socket.socketpair()
    with left, right:
        with pytest.raises(ValueError, match="name of its own"):
            hall.connections.add(left.fileno(), b"ann")
        with pytest.raises(TypeError):
            hall.connections.add(left.fileno(), "text")  # type: ignore[arg-type]


BREACHES = {
    "flags that are none": b"\x08\x00",
    "a command with more": b"\x05\x00",
    "too large": b"\x02" + (MESSAGE_MAX + 1).to_bytes(8, "big"),
    "far too large": b"\x02" + b"\xff" * 8,
    "too large in two frames": frame(bytes(200), zmtp.MORE) + b"\x02" + (MESSAGE_MAX - 100).to_bytes(8, "big"),
    "a command that is too large": b"\x06" + (5000).to_bytes(8, "big"),
}


@pytest.mark.parametrize("breach", BREACHES.values(), ids=BREACHES.keys())
def test_a_breach_ends_its_own_connection(hall: Hall, breach: bytes) -> None:
    hall.enter(b"ann", b"bob")
    hall.ends[b"ann"].send(frame(b"before") + breach + frame(b"after"))
    hall.ends[b"bob"].send(frame(b"x"))
    assert sorted(hall.recv()) == [[b"ann", b"before"], [b"bob", b"x"]]
    assert hall.connections.gone == [b"ann"]


@pytest.mark.parametrize("size", [0, 10, 1000])
def test_an_endless_message_has_an_end(halls: Callable[..., Hall], size: int) -> None:
    hall = halls(message_bytes_max=1 * MIB)
    hall.enter(b"ann")
    part, sent = frame(b"x" * size, zmtp.MORE) * 100, 0
    with suppress(BrokenPipeError, ConnectionResetError):
        while sent < 3 * MIB:
            with suppress(BlockingIOError):
                sent += hall.ends[b"ann"].send(part)
            assert hall.recv() == []
            assert hall.connections.unfinished <= 1 * MIB + 64 * 1024
    assert sent < 3 * MIB
    assert hall.connections.gone == [b"ann"]
    assert hall.connections.unfinished == 0


def test_of_a_message_of_too_many_frames_one_more_is_kept(hall: Hall) -> None:
    hall.enter(b"ann")
    frames = [b"%d" % number for number in range(5000)]
    assert hall.send_from(b"ann", framed(frames) + framed([b"next"])) == [
        [b"ann", *frames[: stream_python.FRAMES_MAX + 1]],
        [b"ann", b"next"],
    ]


# -- bounds of what comes -------------------------------------------------------------------------------------------


def announce(size: int, there: int = 0) -> bytes:
    """The head of a large frame, and a bit of it."""
    return b"\x02" + size.to_bytes(8, "big") + bytes(there)


def test_large_frames_wait_for_room_and_then_arrive(halls: Callable[..., Hall]) -> None:
    hall = halls(unfinished_bytes_max=3 * MIB)
    hall.enter(b"ann", b"bob", b"cyd")
    for peer in hall.ends:
        hall.ends[peer].send(announce(2 * MIB, 1000))
        hall.recv()
    assert hall.connections.unfinished < 3 * MIB, "only the first one has room"
    hall.ends[b"bob"].send(b"")
    rest = bytes(2 * MIB - 1000)
    came = hall.send_from(b"ann", rest)
    assert came == [[b"ann", bytes(2 * MIB)]]
    for peer in (b"bob", b"cyd"):
        assert hall.send_from(peer, rest) == [[peer, bytes(2 * MIB)]]
    assert hall.connections.unfinished == 0


def test_small_messages_pass_while_large_ones_wait(halls: Callable[..., Hall]) -> None:
    hall = halls(unfinished_bytes_max=3 * MIB)
    hall.enter(b"ann", b"bob", b"cyd")
    for peer in (b"ann", b"bob"):
        hall.ends[peer].send(announce(2 * MIB, 1000))
        hall.recv()
    hall.ends[b"cyd"].send(framed([b"small"]))
    assert hall.recv() == [[b"cyd", b"small"]]


def test_who_takes_up_room_and_brings_nothing_makes_way(halls: Callable[..., Hall]) -> None:
    hall = halls(unfinished_bytes_max=3 * MIB)
    hall.enter(b"idle", b"ann")
    hall.ends[b"idle"].send(announce(2 * MIB, 1000))
    hall.recv()
    for second in range(1, 4):
        hall.connections.tick(second * NS_PER_S)
    assert len(hall.connections) == 2, "as long as nobody else wants the room"
    hall.ends[b"ann"].send(announce(2 * MIB, 1000))
    hall.recv()
    hall.connections.tick(4 * NS_PER_S)
    assert hall.connections.gone == [b"idle"]
    assert hall.send_from(b"ann", bytes(2 * MIB - 1000)) == [[b"ann", bytes(2 * MIB)]]


def test_who_waits_for_room_is_not_sent_away(halls: Callable[..., Hall]) -> None:
    hall = halls(unfinished_bytes_max=3 * MIB)
    hall.enter(b"busy", b"ann")
    hall.ends[b"busy"].send(announce(2 * MIB, 1000))
    hall.recv()
    hall.ends[b"ann"].send(announce(2 * MIB, 1000))
    for second in range(1, 10):
        hall.send_from(b"busy", bytes(100_000))
        hall.connections.tick(second * NS_PER_S)
    assert hall.connections.gone == []


def test_many_small_beginnings_are_bounded_too(halls: Callable[..., Hall]) -> None:
    """Each of them takes up less than a read; together they must not take up more than there is."""
    hall = halls(unfinished_bytes_max=1 * MIB)
    for number in range(100):
        hall.enter(b"%d" % number).send(frame(bytes(60_000))[:50_000])
        hall.recv()
        assert hall.connections.unfinished <= 1.25 * MIB
    assert len(hall.connections.gone) > 70


def test_room_is_counted_right_whatever_ends(halls: Callable[..., Hall]) -> None:
    hall = halls(unfinished_bytes_max=8 * MIB)
    for number in range(20):
        peer = b"%d" % number
        hall.enter(peer).send(frame(b"e", zmtp.MORE) + frame(b"x" * 1000, zmtp.MORE) + announce(1 * MIB, 50_000))
        hall.recv()
        if number % 3 == 0:
            hall.connections.cut(peer)
        elif number % 3 == 1:
            hall.ends[peer].close()
            hall.recv()
        else:
            assert len(hall.send_from(peer, bytes(1 * MIB - 50_000))) == 1
    assert hall.connections.unfinished == 0


# -- bounds of what goes --------------------------------------------------------------------------------------------


def test_what_a_peer_does_not_read_is_bounded_in_bytes(halls: Callable[..., Hall]) -> None:
    hall = halls(unsent_bytes_max=1 * MIB)
    hall.enter(b"ann", b"bob")
    messages = [[b"ann", b"", b"", os.urandom(10_000)] for _ in range(300)]
    refused = hall.connections.send(messages)
    taken = 300 - len(refused)
    assert refused == [(number, errno.EAGAIN) for number in range(taken, 300)]
    assert 0.9 * MIB < hall.connections.unsent <= 1 * MIB
    assert hall.connections.send([[b"ann", b"", b"", bytes(20_000)], [b"bob", b"x"]]) == [(0, errno.EAGAIN)]
    assert hall.read_of(b"bob") == framed([b"x"]), "the others are not harmed"
    expected = b"".join(framed(message[1:]) for message in messages[:taken])
    assert hall.read_of(b"ann", len(expected)) == expected, "what was taken arrives"
    assert hall.connections.unsent == 0
    assert hall.connections.send([[b"ann", b"x"]]) == []


def test_one_message_is_taken_however_large(halls: Callable[..., Hall]) -> None:
    hall = halls(unsent_bytes_max=1000)
    hall.enter(b"ann")
    large = [b"", b"", os.urandom(2 * MIB)]
    assert hall.connections.send([[b"ann", *large], [b"ann", b"x" * 900]]) == [(1, errno.EAGAIN)]
    assert hall.read_of(b"ann", 2 * MIB) == framed(large)


def test_a_burst_of_small_ones_for_one_who_reads_is_taken_whole(hall: Hall) -> None:
    hall.enter(b"ann", b"bob")
    messages = [[b"e%d" % number, b"h" * 100, b"b" * 200] for number in range(4000)]
    for peer in (b"ann", b"bob"):
        for at in range(0, 4000, 100):
            assert hall.connections.send([[peer, *message] for message in messages[at : at + 100]]) == []
    assert hall.connections.unsent > 0
    for peer in (b"ann", b"bob"):
        ours, theirs = socket.socketpair()
        with ours, theirs:
            reader = Hall("python")
            reader.connections.add(theirs.detach(), b"x")
            left, came = memoryview(hall.read_of(peer, 1_200_000)), []
            ours.setblocking(False)
            while left:
                with suppress(BlockingIOError):
                    left = left[ours.send(left) :]
                came += reader.recv()
            reader.close()
        assert came == [[b"x", *message] for message in messages]


def test_of_all_who_do_not_read_the_one_with_most_is_cut_off(halls: Callable[..., Hall]) -> None:
    hall = halls(unsent_bytes_max=4 * MIB, unsent_all_bytes_max=6 * MIB)
    hall.enter(b"a", b"b", b"c")
    assert hall.connections.send([[b"a", bytes(3 * MIB)], [b"b", bytes(2 * MIB)]]) == []
    assert hall.connections.send([[b"c", bytes(3 * MIB - 100_000)]]) == []
    assert hall.connections.gone == [b"a"]
    assert hall.connections.unsent <= 6 * MIB
    assert hall.connections.send([[b"b", b"x"], [b"c", b"x"]]) == []


def test_who_takes_nothing_for_too_long_is_cut_off(hall: Hall) -> None:
    hall.enter(b"deaf", b"slow", b"idle")
    assert hall.connections.send([[b"deaf", bytes(3 * MIB)], [b"slow", bytes(3 * MIB)]]) == []
    for second in range(100, 110):
        hall.connections.tick(second * NS_PER_S)
        hall.ends[b"slow"].recv(100_000)
        hall.recv()
        assert hall.connections.gone == ([] if second <= 105 else [b"deaf"]), second
    assert len(hall.connections) == 2


def test_a_long_calm_is_no_guilt(hall: Hall) -> None:
    """Patience counts from when there is something to take, not from the last time that anybody looked."""
    hall.enter(b"ann")
    hall.connections.tick(1 * NS_PER_S)
    hall.connections.send([[b"ann", bytes(3 * MIB)]])
    hall.connections.tick(1000 * NS_PER_S)
    hall.connections.tick(1004 * NS_PER_S)
    assert hall.connections.gone == []


def test_everybody_hears_what_is_published_but_who_does_not_listen(halls: Callable[..., Hall]) -> None:
    hall = halls(unsent_bytes_max=100_000)
    hall.enter(b"ann", b"deaf")
    hall.connections.send([[b"deaf", bytes(1 * MIB)]])
    before = hall.connections.unsent
    for number in range(1000):
        hall.connections.publish([b"news", b"%d" % number])
        assert hall.read_of(b"ann") == framed([b"news", b"%d" % number])
    assert hall.connections.unsent == before
    with pytest.raises(TypeError):
        hall.connections.publish(["text"])  # type: ignore[list-item]


def test_leaving_tells_what_has_not_arrived(hall: Hall) -> None:
    hall.enter(b"ann")
    hall.connections.send([[b"ann", bytes(3 * MIB)]])
    assert hall.connections.leaving() > 2 * MIB
    hall.read_of(b"ann", 3 * MIB)
    assert hall.connections.leaving() == 0


@pytest.mark.parametrize(
    ("messages", "error"),
    [
        ("text", TypeError),
        ([b"no row"], TypeError),
        ([[b"ann", "text"]], TypeError),
        ([[b"ann", b"x"], []], ValueError),
        ([[b"ann", b"x"], [b"ann"]], ValueError),
        ([[b"ann"] + [b"x"] * 17], ValueError),
    ],
)
def test_what_is_no_message_raises_before_anything_leaves(hall: Hall, messages: Any, error: type[Exception]) -> None:
    hall.enter(b"ann")
    with pytest.raises(error):
        hall.connections.send(messages)
    assert hall.read_of(b"ann") == b""


# -- whatever comes -------------------------------------------------------------------------------------------------

_pieces = st.one_of(
    st.tuples(st.binary(max_size=100)),
    st.tuples(st.binary(max_size=300).map(frame)),
    st.tuples(st.binary(max_size=300).map(lambda content: frame(content, zmtp.MORE))),
    st.tuples(st.binary(max_size=300).map(lambda content: frame(content, zmtp.COMMAND))),
    # By their sizes, which are easier to read than they themselves.
    st.sampled_from([65_000, 65_526, 65_527, 65_528, 65_536, 100_000]),
    st.tuples(st.builds(announce, st.integers(0, 200_000), st.integers(0, 100))),
    st.sampled_from([(PING,), (frame(parcels.write([[b"e", b"h", b"b"]] * 20)),), (framed([b"e", b"h", b"b"]),)]),
)
_said = st.lists(st.tuples(st.sampled_from([b"a", b"b", b"c"]), _pieces), max_size=30)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(said=_said, limit=st.sampled_from([1, 2, ALL]))
@without_native
def test_whatever_comes_both_take_it_alike(said: list[tuple[bytes, tuple[bytes] | int]], limit: int) -> None:
    seen = []
    for twin in ("native", "python"):
        hall = Hall(twin, message_bytes_max=150_000)
        try:
            seen.append(_story(hall, said, limit))
        finally:
            hall.close()
    assert seen[0] == seen[1]


def _story(hall: Hall, said: list[tuple[bytes, tuple[bytes] | int]], limit: int) -> object:
    """What came of it, who was cut off, and what they were answered."""
    hall.enter(b"a", b"b", b"c")
    came: dict[bytes, list[list[bytes]]] = {b"a": [], b"b": [], b"c": []}
    for peer, what in said:
        piece = frame(b"\x02" * what) if isinstance(what, int) else what[0]
        with suppress(BrokenPipeError, ConnectionResetError):
            while piece:
                with suppress(BlockingIOError):
                    piece = piece[hall.ends[peer].send(piece) :]
                for each, *message in hall.recv(limit):
                    came[each].append(message)
    answers = []
    for peer in came:
        with suppress(ConnectionResetError):
            answers.append(hall.read_of(peer))
    return came, sorted(hall.connections.gone), answers


def test_nothing_is_left_of_those_who_came_and_went(hall: Hall) -> None:
    """References as well as descriptors; a leak of either would be found by whoever connects often."""
    peer = b"the name of a peer"
    files = len(os.listdir("/proc/self/fd"))
    content = frame(b"e", zmtp.MORE) + frame(b"x" * 1000, zmtp.MORE) + announce(1 * MIB, 50_000)
    gc.collect()
    references = sys.getrefcount(peer)
    for _ in range(300):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        with theirs:
            hall.connections.add(ours.detach(), peer)
            theirs.send(content)
            hall.recv()
            hall.connections.send([[peer, b"e", b"h", bytes(1 * MIB)]])
        hall.recv()
        assert hall.connections.gone == [peer]
        hall.connections.gone.clear()
    assert len(hall.connections) == hall.connections.unsent == hall.connections.unfinished == 0
    gc.collect()
    assert sys.getrefcount(peer) == references
    assert len(os.listdir("/proc/self/fd")) == files


def test_python_code_that_runs_meanwhile_may_do_anything(twin: str) -> None:
    """Making a message may run the garbage collector, and that the last words of anything."""
    hall = Hall(twin)
    hall.enter(b"a", b"b", b"c")

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            with suppress(ValueError):
                hall.connections.send([[b"a", b"x"], [b"b", b"x" * 10_000]])
                hall.connections.recv(10)
                hall.connections.cut(b"b")
                hall.connections.tick(1)

    thresholds = gc.get_threshold()
    gc.set_threshold(1, 1, 1)
    try:
        for number in range(200):
            for peer in (b"a", b"b", b"c"):
                with suppress(OSError):
                    hall.ends[peer].send(framed([b"e", b"h", b"%d" % number]) * 10)
            Cycle()
            hall.connections.recv(5)
            if number % 20 == 19 and hall.connections.send([[b"b", b"?"]]):
                hall.enter(b"b")
    finally:
        gc.set_threshold(*thresholds)
        hall.close()
