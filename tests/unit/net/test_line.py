"""A line: it connects, and again; it hears, and tells; whatever the other side does, nothing is left waiting."""

from __future__ import annotations

import os
import select
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import zmq

from famulus.core.clock import NS_PER_S
from famulus.core.silence import SELDOM_NS, SOON_NS
from famulus.errors import SettingsError
from famulus.net import line as line_module
from famulus.net import lookup
from famulus.net.line import NEXT_NS, SOON_BACK_EVERY_NS, Change, Line
from famulus.net.lookup import Lookup
from famulus.net.opening import unconfirmed_bytes
from famulus.wire import zmtp

SOON_S = 60.0
TASK = [b"envelope", b"header", b"body"]
PING = zmtp.framed_command(zmtp.PING)
READY = zmtp.opening(b"DEALER")[:64] + zmtp.command(b"READY", b"\x0bSocket-Type\0\0\0\x06ROUTER")


class Owner:
    """What an owner of a line does, one turn at a time."""

    def __init__(self, address: str, *, asks: bool = False) -> None:
        self.line = Line(address, asks=asks)
        self.heard: list[list[bytes]] = []
        self.changes: list[Change] = []

    def turn(self, timeout_s: float = 0.1) -> None:
        select.select([self.line.fd], [], [], timeout_s)
        self.heard += self.line.recv()
        if not self.line.calm or time.monotonic_ns() >= self.line.due_ns:
            self.changes += self.line.follow(time.monotonic_ns())

    def until(self, holds: Callable[[], object], what: str = "it holds") -> None:
        deadline = time.monotonic() + SOON_S
        while not holds():
            assert time.monotonic() < deadline, f"{what}: not within {SOON_S} s"
            self.turn()

    def up(self) -> None:
        self.until(lambda: self.line.up, "up")


Owners = Callable[..., Owner]


@pytest.fixture
def owners() -> Iterator[Owners]:
    made: list[Owner] = []

    def make(address: str, **options: Any) -> Owner:
        made.append(Owner(address, **options))
        return made[-1]

    yield make
    for owner in made:
        owner.line.close()


class Router:
    """libzmq's ROUTER, at a port of its own."""

    def __init__(self, port: int = 0) -> None:
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self.socket = self._context.socket(zmq.ROUTER)
        self.socket.linger = 0
        self.socket.bind(f"tcp://127.0.0.1:{port or '*'}")
        self.port = int(self.socket.get_string(zmq.LAST_ENDPOINT).rstrip("\0").rpartition(":")[2])
        self.address = f"tcp://127.0.0.1:{self.port}"

    def hear(self) -> list[bytes]:
        assert self.socket.poll(int(SOON_S * 1000)), "nothing came"
        return self.socket.recv_multipart()

    def die(self) -> None:
        self._context.destroy(linger=0)


@pytest.fixture
def router() -> Iterator[Router]:
    router = Router()
    yield router
    router.die()


@pytest.fixture
def server() -> Iterator[socket.socket]:
    """Somebody who takes connections; what he says is up to the test."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(SOON_S)
        yield server


def address_of(server: socket.socket) -> str:
    return f"tcp://127.0.0.1:{server.getsockname()[1]}"


def accepted(server: socket.socket, says: bytes = READY) -> socket.socket:
    connection, _ = server.accept()
    connection.settimeout(SOON_S)
    connection.sendall(says)
    return connection


# -- with libzmq --------------------------------------------------------------------------------------------------


def test_messages_there_and_back(owners: Owners, router: Router) -> None:
    owner = owners(router.address)
    owner.up()
    assert owner.changes == [Change.UP]
    assert owner.line.was_up
    large = [b"e", b"h", os.urandom(3_000_000)]
    for message in ([b"one frame"], large, [b"a", b"", b"c", b""]):
        assert owner.line.send([message]) == 1
        while not owner.line.calm:
            owner.turn()
        peer, *heard = router.hear()
        assert heard == message
        router.socket.send_multipart([peer, *heard])
        owner.until(lambda: owner.heard, "the answer")
        assert owner.heard == [message]
        owner.heard.clear()


def test_by_a_path(owners: Owners, router: Router, tmp_path: Path) -> None:
    owner = owners(f"ipc://{tmp_path}/router")
    owner.until(lambda: owner.line.calm, "nobody is there")
    router.socket.bind(f"ipc://{tmp_path}/router")
    owner.up()
    owner.line.send([[b"hello"]])
    assert router.hear()[1:] == [b"hello"]


def test_libzmq_answers_our_ping(owners: Owners, router: Router) -> None:
    owner = owners(router.address, asks=True)
    owner.up()
    stream = owner.line._stream
    assert stream is not None
    for _ in range(5):
        before = stream.received
        assert owner.line.follow(owner.line.due_ns) == []
        owner.until(lambda: stream.received > before, "its PONG, since it says nothing else")  # noqa: B023
    assert owner.changes == [Change.UP]


def test_it_connects_as_soon_as_somebody_is_there(owners: Owners) -> None:
    first = Router()
    port = first.port
    first.die()
    owner = owners(f"tcp://127.0.0.1:{port}")
    owner.until(lambda: owner.line.calm, "refused, and resting")
    assert not owner.line.up
    second = Router(port)
    try:
        owner.up()
        assert owner.changes == [Change.UP]
    finally:
        second.die()


def test_it_connects_again(owners: Owners) -> None:
    first = Router()
    owner = owners(first.address)
    owner.up()
    first.die()
    owner.until(lambda: not owner.line.up, "lost")
    second = Router(first.port)
    try:
        owner.up()
        assert owner.changes == [Change.UP, Change.DOWN, Change.UP]
        assert owner.line.send([TASK]) == 1
        assert second.hear()[1:]
    finally:
        second.die()


def test_after_each_success_it_is_as_patient_as_at_first(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server))
    for _ in range(5):
        with accepted(server):
            owner.up()
        owner.until(lambda: not owner.line.up, "lost")
        assert owner.line.due_ns - time.monotonic_ns() <= 0.1 * NS_PER_S
        owner.until(lambda: select.select([server], [], [], 0)[0], "it comes again")


def test_a_broker_that_was_just_there_is_tried_often(owners: Owners, server: socket.socket) -> None:
    """It is started again within seconds, and nobody is to sleep through that."""
    owner = owners(address_of(server))
    accepted(server).close()
    owner.up()
    server.close()
    owner.until(lambda: not owner.line.up, "lost")
    pauses = []
    for _ in range(12):
        owner.line.follow(owner.line.due_ns)
        while not owner.line.calm:
            owner.turn(0)
        pauses.append(owner.line.due_ns - time.monotonic_ns())
    assert max(pauses) <= SOON_BACK_EVERY_NS


# -- with others --------------------------------------------------------------------------------------------------


def test_what_follows_the_opening_at_once_is_not_lost(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server))
    with accepted(server, READY + b"\x00\x05early"):
        owner.until(lambda: owner.heard, "what came early")
        assert owner.heard == [[b"early"]]
        assert owner.changes == [Change.UP]


def test_an_opening_byte_by_byte(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server))
    with accepted(server, b"") as connection:
        for at in range(len(READY)):
            assert not owner.line.up
            connection.sendall(READY[at : at + 1])
            owner.turn(0)
        owner.up()


@pytest.mark.parametrize(
    "says", [b"HTTP/1.1 400 Bad Request\r\n" * 10, zmtp.opening(b"DEALER")[:64] + b"\x04\x06\x05ERROR"]
)
def test_who_speaks_something_else_is_left_and_tried_again(owners: Owners, server: socket.socket, says: bytes) -> None:
    owner = owners(address_of(server))
    with accepted(server, says):
        owner.until(lambda: owner.line.calm, "resting")
        assert owner.line.due_ns - time.monotonic_ns() < 0.2 * NS_PER_S
        assert owner.changes == []
    owner.until(lambda: select.select([server], [], [], 0)[0], "it comes again")
    with accepted(server):
        owner.up()


def test_who_says_nothing_is_left(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server))
    with accepted(server, zmtp.opening(b"DEALER")[:70]):
        owner.turn()
        assert owner.line.due_ns > time.monotonic_ns() + 5 * NS_PER_S
        owner.line.follow(owner.line.due_ns)
        assert owner.line.calm
        assert not owner.line.up


def test_who_has_begun_to_answer_is_waited_for(owners: Owners, server: socket.socket) -> None:
    """Many come to it at once, and it lets them in one after another."""
    owner = owners(address_of(server))
    usual_ns = owner.line.due_ns
    with accepted(server, READY[:12]):
        owner.until(lambda: owner.line.due_ns > usual_ns + 10 * NS_PER_S, "more patience")
        until_ns = owner.line.due_ns
        owner.line.follow(usual_ns)
        assert owner.line.due_ns == until_ns
        owner.line.follow(until_ns)
        assert owner.line.due_ns < until_ns + 10 * NS_PER_S, "it has an end, too"
        assert not owner.line.up


def test_a_breach_is_a_loss_after_what_came_before(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server))
    with accepted(server) as connection:
        owner.up()
        connection.sendall(b"\x00\x04last" + b"\xff\xff")
        owner.until(lambda: not owner.line.up, "lost")
        assert owner.heard == [[b"last"]]
        assert owner.changes == [Change.UP, Change.DOWN]


def test_a_ping_is_answered(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server))
    with accepted(server) as connection:
        owner.up()
        assert connection.recv(len(zmtp.opening(b"DEALER")), socket.MSG_WAITALL) == zmtp.opening(b"DEALER")
        connection.sendall(zmtp.command(b"PING", b"\0\0context"))
        pong = zmtp.command(b"PONG", b"context")
        owner.until(lambda: select.select([connection], [], [], 0)[0], "an answer")
        assert connection.recv(len(pong), socket.MSG_WAITALL) == pong
        assert owner.changes == [Change.UP]


def test_a_ping_that_is_no_command_is_a_loss(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server))
    with accepted(server) as connection:
        owner.up()
        connection.sendall(b"\x04\x01\x09")
        owner.until(lambda: Change.DOWN in owner.changes, "lost")


def test_without_room_its_descriptor_tells_when_there_is_some(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server))
    with accepted(server) as connection:
        owner.up()
        message = [b"e", b"h", bytes(1_000_000)]
        sent = 0
        while owner.line.send([message]):
            sent += 1
        assert not owner.line.calm
        assert not select.select([owner.line.fd], [], [], 0)[0], "there is no room, and nobody is woken"
        received = 0
        while not select.select([owner.line.fd], [], [], 0)[0]:
            received += len(connection.recv(1 << 20))
        while received < len(zmtp.opening(b"DEALER")) + sent * 1_000_000:
            owner.turn(0)
            received += len(connection.recv(1 << 20))
        owner.until(lambda: owner.line.calm, "all has left")
        assert owner.line.send([TASK]) == 1
        assert not select.select([owner.line.fd], [], [], 0)[0], "and nobody is woken by room that nobody wants"


# -- heartbeats ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("every_ns", [SELDOM_NS, SOON_NS])
def test_silence_is_a_loss(owners: Owners, server: socket.socket, every_ns: int) -> None:
    owner = owners(address_of(server), asks=True)
    owner.line.ask_every_ns = every_ns
    with accepted(server) as connection:
        owner.up()
        assert connection.recv(len(zmtp.opening(b"DEALER")), socket.MSG_WAITALL) == zmtp.opening(b"DEALER")
        now_ns = owner.line.due_ns
        assert now_ns <= time.monotonic_ns() + every_ns
        for _ in range(2):
            assert owner.line.follow(now_ns) == []
            assert connection.recv(100) == PING
            now_ns += every_ns
            assert owner.line.due_ns == now_ns
        assert owner.line.follow(now_ns) == [Change.DOWN]
        assert not owner.line.up
        assert owner.line.fell_silent
        assert connection.recv(100) == b""


def test_who_waits_for_something_looks_sooner(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server), asks=True)
    with accepted(server):
        owner.line.hurry(time.monotonic_ns())
        owner.up()
        assert owner.line.due_ns > time.monotonic_ns() + SOON_NS
        owner.line.ask_every_ns = SOON_NS
        owner.line.hurry(time.monotonic_ns())
        assert owner.line.due_ns <= time.monotonic_ns() + SOON_NS


def test_a_line_that_was_cut_did_not_fall_silent(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server), asks=True)
    with accepted(server):
        owner.up()
    owner.until(lambda: Change.DOWN in owner.changes, "cut")
    assert not owner.line.fell_silent


def test_who_says_anything_is_there_whether_it_was_read_or_not(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server), asks=True)
    with accepted(server) as connection:
        owner.up()
        for is_read in [False] * 5 + [True] * 5:
            connection.sendall(b"\x00\x05alive")
            assert select.select([owner.line.fd], [], [], SOON_S)[0]
            if is_read:
                assert owner.line.recv()
            assert owner.line.follow(owner.line.due_ns) == []
        assert owner.line.up


def test_what_a_broker_said_before_it_closed_is_read_whole_whenever_a_ping_is_due(
    owners: Owners, server: socket.socket
) -> None:
    owner = owners(address_of(server), asks=True)
    with accepted(server) as connection:
        owner.up()
        assert connection.recv(len(zmtp.opening(b"DEALER")), socket.MSG_WAITALL) == zmtp.opening(b"DEALER")
        connection.setblocking(False)
        said = 0
        # As much as both machines have room for: some of it leaves only when we have read the rest.
        with suppress(BlockingIOError):
            while True:
                said += connection.send(b"\x00\x04word" * 10_000)
    assert owner.line.follow(owner.line.due_ns) == []
    owner.until(lambda: Change.DOWN in owner.changes, "told of the end")
    assert len(owner.heard) == said // 6


def test_who_does_not_ask_is_not_woken(owners: Owners, server: socket.socket) -> None:
    owner = owners(address_of(server))
    with accepted(server):
        owner.up()
        assert owner.line.due_ns > time.monotonic_ns() + 1000 * NS_PER_S


def test_a_body_on_a_slow_way_is_no_silence(owners: Owners, server: socket.socket) -> None:
    """A PING waits behind it, so there is no PONG; but it goes on."""
    owner = owners(address_of(server), asks=True)
    server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)
    with accepted(server) as connection:
        owner.up()
        assert owner.line.send([[b"e", b"h", bytes(30_000_000)]]) == 1
        for _ in range(6):
            before = unconfirmed_bytes(owner.line._descriptor())
            while unconfirmed_bytes(owner.line._descriptor()) == before:
                connection.recv(65536)
            assert owner.line.follow(owner.line.due_ns) == []
        assert [owner.line.follow(owner.line.due_ns) for _ in range(3)][-1] == [Change.DOWN], "it takes no more"


# -- names --------------------------------------------------------------------------------------------------------


def test_a_name_is_looked_up_and_nobody_waits(owners: Owners, router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()
    really = socket.getaddrinfo

    def slow(host: str, port: int, *arguments: Any, **options: Any) -> Any:
        if host == "broker.example":
            if options.get("flags"):
                raise socket.gaierror(socket.EAI_NONAME, "a name")
            assert go_on.wait(SOON_S)
            # The first one is not there.
            return really("127.0.0.1", 1, type=socket.SOCK_STREAM) + really("127.0.0.1", port, type=socket.SOCK_STREAM)
        return really(host, port, *arguments, **options)

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    owner = owners(f"tcp://broker.example:{router.port}")
    owner.turn(0)
    assert not owner.line.calm
    owner.line.follow(owner.line.due_ns)
    assert [thread.name for thread in threading.enumerate()].count("famulus-lookup") == 1
    go_on.set()
    owner.until(lambda: owner.line.up or owner.line.calm)
    assert owner.line.up, "it does not rest before it has tried all of them"


def test_a_name_that_nobody_knows_is_asked_for_again(owners: Owners, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def unknown(host: str, *arguments: Any, **options: Any) -> Any:
        if not options.get("flags"):
            asked.append(host)
        raise socket.gaierror(socket.EAI_NONAME, "unknown")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    owner = owners("tcp://nobody.example:7100")
    owner.until(lambda: len(asked) >= 3, "asked again")
    assert owner.changes == []


def test_an_address_that_says_nothing_is_not_waited_for_if_there_are_others(
    owners: Owners, router: Router, server: socket.socket, monkeypatch: pytest.MonkeyPatch
) -> None:
    ports = [server.getsockname()[1], router.port]
    monkeypatch.setattr(lookup, "known", lambda host, port: [(socket.AF_INET, ("127.0.0.1", each)) for each in ports])
    monkeypatch.setattr(line_module, "known", lookup.known)
    owner = owners("tcp://127.0.0.1:1")
    with accepted(server, b""):
        assert owner.line.due_ns <= time.monotonic_ns() + NEXT_NS
        owner.line.follow(owner.line.due_ns)
        owner.up()


def test_all_who_want_the_same_name_share_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slow(host: str, port: int, *arguments: Any, **options: Any) -> Any:
        assert go_on.wait(SOON_S)
        raise ZeroDivisionError if host == "broken.example" else OSError

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    names = ["same.example"] * 5 + ["broken.example"]
    lookups = [Lookup(name, 7100) for name in names]
    lookups[1].close()
    assert [thread.name for thread in threading.enumerate()].count("famulus-lookup") == 2
    go_on.set()
    for each in lookups[:1] + lookups[2:]:
        assert select.select([each.fd], [], [], SOON_S)[0]
        assert each.found == []
        each.close()


def test_without_a_thread_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(self: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", none_left)
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(OSError, match="no thread"):
            Lookup("same.example", 7100)
    assert len(os.listdir("/proc/self/fd")) == before


def test_closed_while_somebody_looks_it_up(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on, done = threading.Event(), threading.Event()

    def slow(host: str, port: int, *arguments: Any, **options: Any) -> Any:
        if options.get("flags"):
            raise socket.gaierror(socket.EAI_NONAME, "a name")
        assert go_on.wait(SOON_S)
        done.set()
        return []

    monkeypatch.setattr(socket, "getaddrinfo", slow)
    line = Line("tcp://slow.example:7100", asks=False)
    looking = [thread for thread in threading.enumerate() if thread.name == "famulus-lookup"]
    line.close()
    other = os.eventfd(0, os.EFD_NONBLOCK)  # very likely the same number
    try:
        go_on.set()
        assert done.wait(SOON_S)
        for thread in looking:
            thread.join(SOON_S)
        with pytest.raises(BlockingIOError):
            os.eventfd_read(other)
    finally:
        os.close(other)


@pytest.mark.parametrize("address", ["tcp://x", "inproc://x", "tcp://-:1", "x:1"])
def test_what_is_no_address_raises(address: str) -> None:
    with pytest.raises(SettingsError, match="is not a broker's address"):
        Line(address, asks=False)


# -- ends ---------------------------------------------------------------------------------------------------------


def test_no_descriptor_is_left(server: socket.socket) -> None:
    before = len(os.listdir("/proc/self/fd"))
    for state in range(4):
        owner = Owner("tcp://127.0.0.1:1" if state == 0 else address_of(server))
        owner.turn(0)
        if state == 1:
            accepted(server).close()
        elif state == 2:
            with accepted(server):
                owner.up()
        elif state == 3:
            with accepted(server, b""):
                owner.turn()
        owner.line.close()
    assert len(os.listdir("/proc/self/fd")) == before


def test_a_child_that_was_forked_does_not_keep_it_awake(owners: Owners, server: socket.socket) -> None:
    """It has a copy of the connection, and so of what that tells."""
    owner = owners(address_of(server))
    with accepted(server):
        owner.up()
        child = subprocess.Popen(["sleep", "60"], pass_fds=[owner.line._descriptor()])
    try:
        owner.until(lambda: not owner.line.up, "lost")
        assert not select.select([owner.line.fd], [], [], 0)[0]
        owner.until(lambda: select.select([server], [], [], 0)[0], "it comes again")
        with accepted(server):
            owner.up()
            assert not select.select([owner.line.fd], [], [], 0)[0]
    finally:
        child.kill()
        child.wait()


def test_without_a_descriptor_it_rests(owners: Owners, router: Router, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*arguments: Any) -> Any:
        raise OSError(24, "Too many open files")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "socket", none_left)
        owner = owners(router.address)
        assert owner.line.calm
    owner.up()
