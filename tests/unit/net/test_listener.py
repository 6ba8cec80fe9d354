"""A listener is a ROUTER or a PUB to any ZeroMQ library, calls nobody by a chosen name, and sends strangers away."""

from __future__ import annotations

import os
import resource
import select
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import partial
from itertools import count
from pathlib import Path

import pytest
import zmq
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from famulus.core.access import FOREIGN, SILENT, TurnedAway
from famulus.core.clock import NS_PER_S
from famulus.core.dispatch.strangers import readable
from famulus.errors import SettingsError
from famulus.net import connections_python, listener, native
from famulus.net.listener import Listener, ListenerBounds
from famulus.wire import zmtp

if native.NATIVE:
    from famulus.net import _pump as pump_native

MIB = 1024 * 1024
BOUNDS = ListenerBounds(4 * MIB, 64 * MIB, 64 * MIB, 256 * MIB, 5 * NS_PER_S)

without_native = pytest.mark.skipif(not native.NATIVE, reason=f"no native pump: {native.WHY_NOT_NATIVE}")


@pytest.fixture(params=[pytest.param("native", marks=without_native), "python"])
def listeners(request: pytest.FixtureRequest) -> Iterator[Callable[..., Listener]]:
    twin = pump_native.Connections if request.param == "native" else connections_python.Connections
    opened: list[Listener] = []

    def open_one(kind: bytes = b"ROUTER") -> Listener:
        opened.append(Listener(kind, BOUNDS, twin))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()


Plain = Callable[[int], "zmq.Socket[bytes]"]


@pytest.fixture
def plain() -> Iterator[Plain]:
    """Sockets of libzmq that close with the test."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    opened: list[zmq.Socket[bytes]] = []

    def open_one(kind: int) -> zmq.Socket[bytes]:
        opened.append(context.socket(kind))
        return opened[-1]

    yield open_one
    for each in opened:
        each.close()
    context.term()


def recv(listener: Listener, until: Callable[[list[list[bytes]]], object], within_s: float = 10.0) -> list[list[bytes]]:
    """Serve until this holds for what has come."""
    came: list[list[bytes]] = []
    deadline = time.monotonic() + within_s
    while not until(came):
        assert time.monotonic() < deadline, came
        if not listener.more:
            select.select([listener.fd], [], [], 0.05)
        came += listener.recv(100)
    return came


def port_of(listener: Listener) -> int:
    return listener.bind("127.0.0.1", 0, "port")


@pytest.mark.parametrize("kind", [zmq.DEALER, zmq.REQ])
def test_sockets_of_libzmq_are_heard_and_answered(listeners: Callable[..., Listener], plain: Plain, kind: int) -> None:
    server = listeners()
    asker = plain(kind)
    asker.connect(f"tcp://127.0.0.1:{port_of(server)}")
    for size in (0, 10, 300, 100_000, 3 * MIB):
        asker.send_multipart([b"header", bytes(size)])
        (message,) = recv(server, lambda came: came)
        peer, *frames = message
        assert frames[-2:] == [b"header", bytes(size)]
        assert server.send([[peer, *frames[:-2], b"answer", bytes(size)]]) == []
        deadline = time.monotonic() + 10
        while not asker.poll(0):
            assert time.monotonic() < deadline
            server.recv(1)
        assert asker.recv_multipart() == [b"answer", bytes(size)]


def test_newcomers_are_let_in_one_by_one_if_each_takes_long(
    listeners: Callable[..., Listener], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In between, those who are connected are served."""
    server = listeners()
    port = port_of(server)
    with ExitStack() as stack:
        newcomers = [stack.enter_context(socket.create_connection(("127.0.0.1", port))) for _ in range(10)]
        recv(server, lambda _: len(server._openings) == len(newcomers))
        for newcomer in newcomers:
            newcomer.sendall(zmtp.opening(b"DEALER"))
        monkeypatch.setattr(listener, "monotonic_ns", partial(next, count(step=NS_PER_S)))
        counts = [len(server)]
        while counts[-1] < len(newcomers):
            recv(server, lambda _: len(server) != counts[-1])
            counts.append(len(server))
    assert counts == list(range(len(newcomers) + 1))


def test_heartbeats_of_libzmq_are_answered(listeners: Callable[..., Listener], plain: Plain) -> None:
    server = listeners()
    asker = plain(zmq.DEALER)
    asker.heartbeat_ivl, asker.heartbeat_timeout = 20, 200
    asker.connect(f"tcp://127.0.0.1:{port_of(server)}")
    asker.send(b"x")
    ((peer, _),) = recv(server, lambda came: came)
    until = time.monotonic() + 0.6  # thrice the time after which it would give us up
    assert recv(server, lambda _: time.monotonic() > until) == []
    assert server.send([[peer, b"still there"]]) == []
    assert server.gone == []


def test_a_name_that_a_peer_gives_itself_is_nobodys_business(listeners: Callable[..., Listener], plain: Plain) -> None:
    """With libzmq it was what a peer is known by: two had one, or one took that of another, or one that libzmq made."""
    server = listeners()
    address = f"tcp://127.0.0.1:{port_of(server)}"
    names: list[bytes] = []
    for identity in (b"ann", b"ann", b"\x01ann", b"x" * 255):
        asker = plain(zmq.DEALER)
        asker.setsockopt(zmq.IDENTITY, identity)
        asker.connect(address)
        asker.send(b"x")
        ((peer, _),) = recv(server, lambda came: came)
        names.append(peer)
    assert len(set(names)) == len(server) == 4
    for name in names:
        assert name[:1] == b"\0"
        assert readable(name).startswith("127.0.0.1:")


def ready(kind: bytes, identity: bytes = b"", minor: int = 1) -> bytes:
    greeting = (b"\xff" + bytes(8) + b"\x7f\x03" + bytes([minor]) + b"NULL").ljust(64, b"\0")
    properties = b"".join(
        bytes([len(name)]) + name + len(value).to_bytes(4, "big") + value
        for name, value in ((b"Identity", identity), (b"Socket-Type", kind))
    )
    return greeting + zmtp.command(b"READY", properties)


@pytest.mark.parametrize("identity", [b"", b"\0", b"\0\0\0\0\1", b"\0" * 255])
@pytest.mark.parametrize("minor", [0, 1])
def test_every_way_to_begin_is_as_good(listeners: Callable[..., Listener], identity: bytes, minor: int) -> None:
    server = listeners()
    with socket.create_connection(("127.0.0.1", port_of(server)), 5) as raw:
        raw.sendall(ready(b"DEALER", identity, minor) + b"\x00\x05hello")
        ((_, frame),) = recv(server, lambda came: came)
        assert frame == b"hello"


STRANGERS = {
    "no ZeroMQ": b"GET / HTTP/1.1\r\nHost: famulus\r\n\r\n" + bytes(64),
    "an old one": b"\x01\x00" + bytes(64),
    "version 2": b"\xff" + bytes(8) + b"\x7f\x01" + bytes(60),
    "another mechanism": ready(b"DEALER").replace(b"NULL\0", b"PLAIN"),
    "of another kind": ready(b"PUSH"),
    "one like us": ready(b"ROUTER"),
    "of no kind": ready(b""),
    "not ready": ready(b"DEALER")[:64] + b"\x00\x05hello",
    "a command without end": ready(b"DEALER")[:64] + b"\x06" + b"\x7f" * 8,
}


@pytest.mark.parametrize("says", STRANGERS.values(), ids=STRANGERS.keys())
def test_who_speaks_something_else_is_sent_away(listeners: Callable[..., Listener], says: bytes) -> None:
    server = listeners()
    with socket.create_connection(("127.0.0.1", port_of(server)), 5) as raw:
        raw.sendall(says)
        raw.setblocking(False)

        def is_over(came: object) -> bool:
            with suppress(BlockingIOError):
                return not raw.recv(1000)
            return False

        with suppress(ConnectionResetError):
            assert recv(server, is_over) == []
        assert len(server) == 0
    assert server.turned_away == {TurnedAway(FOREIGN, b"127.0.0.1"): 1}


def test_who_leaves_by_itself_was_not_turned_away(listeners: Callable[..., Listener]) -> None:
    """As those do who only look whether a port is open."""
    server = listeners()
    with socket.create_connection(("127.0.0.1", port_of(server)), 5):
        recv(server, lambda _: len(server._openings) == 1)
    recv(server, lambda _: not server._openings)
    assert server.turned_away == {}


def test_who_takes_too_long_to_say_who_it_is_is_sent_away(listeners: Callable[..., Listener]) -> None:
    server = listeners()
    port = port_of(server)
    opened = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(20)]
    for number, raw in enumerate(opened):
        raw.sendall(ready(b"DEALER")[: number * 4])
    recv(server, lambda _: len(server._openings) == 20)
    now_ns = time.monotonic_ns()
    server.on_tick(now_ns)
    assert len(server._openings) == 20
    server.on_tick(now_ns + 3 * NS_PER_S)
    assert len(server._openings) == 0
    assert server.turned_away == {TurnedAway(SILENT, b"127.0.0.1"): 20}
    for raw in opened:
        with suppress(ConnectionResetError):
            while raw.recv(1000):
                pass
        raw.close()


def test_the_oldest_of_too_many_who_say_nothing_makes_way(listeners: Callable[..., Listener], plain: Plain) -> None:
    server = listeners()
    port = port_of(server)
    opened = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(listener.OPENINGS_MAX + 10)]
    recv(server, lambda _: len(server._openings) == listener.OPENINGS_MAX)
    asker = plain(zmq.DEALER)
    asker.connect(f"tcp://127.0.0.1:{port}")
    asker.send(b"x")
    assert len(recv(server, lambda came: came)) == 1
    for raw in opened:
        raw.close()


def test_without_descriptors_those_inside_are_served_and_nothing_spins(
    listeners: Callable[..., Listener], plain: Plain
) -> None:
    server = listeners()
    port = port_of(server)
    inside = plain(zmq.DEALER)
    inside.connect(f"tcp://127.0.0.1:{port}")
    inside.send(b"x")
    ((peer, _),) = recv(server, lambda came: came)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    outside = socket.socket()
    outside.setblocking(False)
    try:
        outside.connect_ex(("127.0.0.1", port))
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(map(int, os.listdir("/proc/self/fd"))), hard))
        turns = 0
        until = time.monotonic() + 0.2
        while time.monotonic() < until:
            if not server.more:
                select.select([server.fd], [], [], 0.05)
            server.recv(10)
            turns += 1
        assert turns < 50, "it rests"
        inside.send(b"y")
        assert recv(server, lambda came: came) == [[peer, b"y"]]
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    outside.setblocking(True)
    outside.sendall(ready(b"DEALER") + b"\x00\x01z")
    server.on_tick(time.monotonic_ns())
    assert recv(server, lambda came: came)[0][1] == b"z"
    outside.close()


def test_the_last_descriptors_are_for_our_own_processes(listeners: Callable[..., Listener]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    top = max(map(int, os.listdir("/proc/self/fd")))
    taken = [os.dup(0)]
    while taken[-1] < top:
        taken.append(os.dup(0))
    limit = (top + 100) * 8 // 7
    end = limit - max(16, min(limit // 8, 64))
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    try:
        server = listeners()
        port = port_of(server)
        crowd = [socket.create_connection(("127.0.0.1", port), 5) for _ in range(60)]
        recv(server, lambda _: lowest_free() == end)
        let_in = len(server._openings)
        for _ in range(20):
            server.on_tick(0)
            server.recv(10)
        assert (len(server._openings), lowest_free()) == (let_in, end)
        for each in crowd:
            each.close()
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
        for each_fd in taken:
            os.close(each_fd)


def lowest_free() -> int:
    os.close(lowest := os.dup(0))
    return lowest


def test_subscribers_of_libzmq_hear_what_is_published(listeners: Callable[..., Listener], plain: Plain) -> None:
    server = listeners(b"PUB")
    address = f"tcp://127.0.0.1:{port_of(server)}"
    subscribers = [plain(zmq.SUB) for _ in range(3)]
    for each in subscribers:
        each.setsockopt(zmq.SUBSCRIBE, b"")
        each.connect(address)
    recv(server, lambda _: len(server) == 3)
    for number in range(5):
        server.publish([b"news", b"%d" % number])
    for each in subscribers:
        for number in range(5):
            assert each.poll(10_000)
            assert each.recv_multipart() == [b"news", b"%d" % number]


def test_a_socket_in_the_file_system(listeners: Callable[..., Listener], tmp_path: Path) -> None:
    server = listeners()
    path = str(tmp_path / "place")
    server.bind_path(path)
    with socket.socket(socket.AF_UNIX) as raw:
        raw.connect(path)
        raw.sendall(ready(b"DEALER") + b"\x00\x01x")
        assert recv(server, lambda came: came)[0][1] == b"x"


def test_ipv6(listeners: Callable[..., Listener]) -> None:
    server = listeners()
    try:
        port = server.bind("::1", 0, "port")
    except SettingsError:
        pytest.skip("this machine has no IPv6")
    with socket.create_connection(("::1", port), 5) as raw:
        raw.sendall(ready(b"DEALER") + b"\x00\x01x")
        ((peer, _),) = recv(server, lambda came: came)
        assert readable(peer).startswith("[::1]:")


def test_what_is_wrong_with_a_port_is_said(listeners: Callable[..., Listener]) -> None:
    port = port_of(listeners())
    with pytest.raises(SettingsError, match=f"frontend_port: port {port} of 127.0.0.1 is in use"):
        listeners().bind("127.0.0.1", port, "frontend_port")
    for host in ("203.0.113.7", "no such host", "2001:db8::1"):
        with pytest.raises(SettingsError, match="is not an address of this machine"):
            listeners().bind(host, 0, "frontend_port")


def test_the_last_words_arrive(listeners: Callable[..., Listener]) -> None:
    """What was said before the end is read by who is slow, and came before what it had sent was looked at."""
    server = listeners()
    with socket.create_connection(("127.0.0.1", port_of(server)), 5) as raw:
        raw.sendall(ready(b"DEALER") + b"\x00\x01x")
        ((peer, _),) = recv(server, lambda came: came)
        raw.sendall(b"\x00\x01y" * 1000)
        assert server.send([[peer, b"last words"]]) == []
        deadline = time.monotonic() + 5
        while server.leaving():
            assert time.monotonic() < deadline
        server.close()
        heard = b""
        with suppress(ConnectionResetError):
            while chunk := raw.recv(1000):
                heard += chunk
        assert heard.endswith(b"last words")


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    says=st.binary(max_size=300) | st.binary(max_size=200).map(lambda rest: ready(b"DEALER") + rest),
    cuts=st.lists(st.integers(1, 100), min_size=1, max_size=5),
)
def test_whatever_is_said_nothing_breaks(listeners: Callable[..., Listener], says: bytes, cuts: list[int]) -> None:
    server = listeners()
    with socket.create_connection(("127.0.0.1", port_of(server)), 5) as raw:
        at = 0
        while at < len(says):
            size = cuts[at % len(cuts)]
            with suppress(OSError):
                raw.sendall(says[at : at + size])
            at += size
            server.recv(10)
    recv(server, lambda _: len(server) == len(server._openings) == 0)


def test_nothing_is_left_of_thousands_who_came_and_went(listeners: Callable[..., Listener]) -> None:
    """libzmq's PUB kept 10 kB of each until it had something to publish."""
    server = listeners(b"PUB")
    port = port_of(server)

    def come_and_go(times: int) -> None:
        for _ in range(times):
            with socket.create_connection(("127.0.0.1", port), 5) as raw:
                raw.sendall(ready(b"SUB") + b"\x00\x01\x01")
                recv(server, lambda _: len(server) == 1)
            recv(server, lambda _: len(server) == 0)
            server.gone.clear()

    come_and_go(200)
    files, before = len(os.listdir("/proc/self/fd")), memory_kib()
    come_and_go(1000)
    assert len(os.listdir("/proc/self/fd")) == files
    assert memory_kib() - before < 2000


def memory_kib() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


def test_errors_of_the_system_are_not_hidden(listeners: Callable[..., Listener], tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        listeners().bind_path(str(tmp_path / "no such folder" / "place"))
