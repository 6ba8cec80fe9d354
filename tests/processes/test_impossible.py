"""What must be impossible in a network whose brokers want keys: every attempt against real processes."""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import resource
import signal
import socket
import sys
import threading
import time
import urllib.request
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import zmq
from tests.processes import warm
from tests.processes.conftest import HERE, Book, WorkerProcess, descendants, memory_kib, retry, wait_until
from tests.processes.networks import PASSWORD
from tests.processes.secured import Refused, SealedLine, Secured, connect, goes_on, is_let_in, is_sent_away
from tests.processes.test_herald import address_of
from zmq.utils import z85

from famulus import Client
from famulus.errors import OutcomeError, Rejected, SettingsError, TaskError
from famulus.net.handshake_rate import AT_ONCE, PER_SECOND
from famulus.net.listener import OPENINGS_MAX
from famulus.wire import curve, zmtp
from famulus.wire.curve import CurveKey

#: As many as this process may have open, if that is fewer.
HALF_OPEN = min(10_000, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 500)
#: Of a worker with a ledger.
SLOTS = 8
TASK = b'{"request":"TASK","type":"REQUEST","service":"echo"}'
PORTS = ("frontend", "backend")


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """One for all tests that do it no harm; `echo` is served."""
    made = Secured(tmp_path_factory.mktemp("secured"), flags=("--http-port", "0"))
    try:
        made.worker()
        yield made
    finally:
        made.close()


@pytest.fixture
def shop(secured: Secured) -> Iterator[Client]:
    """A client with a pass, whose tasks go well before and after."""
    with secured.client() as client:
        goes_on(client)
        yield client
        goes_on(client)


# -- who has no valid key -------------------------------------------------------------------------------------------

#: How somebody begins who has no key: NULL, and PLAIN with a name and a password; and what older ZeroMQs say.
BEGINNINGS = {
    "no key": zmtp.opening(b"DEALER") + b"\x00\x00" + bytes([0, len(TASK)]) + TASK,
    "a name and a password": zmtp.opening(b"DEALER")[:12] + b"PLAIN".ljust(20, b"\0") + bytes(32)
    + zmtp.command(b"HELLO", b"\x05admin\x08password"),
    "ZMTP 1.0": b"\x01\x00" + bytes([1 + len(TASK), 0]) + TASK,
    "ZMTP 2.0": b"\xff" + bytes(8) + b"\x7f\x01\x05" + b"\x00\x00" + bytes([0, len(TASK)]) + TASK,
    "HTTP": b"GET / HTTP/1.1\r\nHost: famulus\r\n\r\n" + bytes(64),
}  # fmt: skip


@pytest.mark.parametrize("port", [*PORTS, "peer", "publications"])
@pytest.mark.parametrize("beginning", BEGINNINGS)
def test_nobody_gets_in_without_a_key(secured: Secured, shop: Client, beginning: str, port: str) -> None:
    """And is told nothing: after the greeting, which everybody sends first, the connection ends."""
    member = secured.b1
    ports = dict(zip(("frontend", "backend", "publications", "peer"), member.ports, strict=True))
    stranger = connect(f"tcp://{member.machine.host}:{ports[port]}")
    stranger.sendall(BEGINNINGS[beginning])
    assert is_sent_away(stranger, 64)


@pytest.mark.parametrize("port", PORTS)
def test_an_unknown_key_opens_nothing(secured: Secured, shop: Client, port: str) -> None:
    with pytest.raises(Refused):
        SealedLine(getattr(secured.b1, port), CurveKey(os.urandom(32)), secured.public_key(secured.b1))


def test_who_means_another_broker_is_not_answered(secured: Secured, shop: Client) -> None:
    """It has a good key, and the wrong one of the broker: nobody between the two could pass on what it says."""
    with pytest.raises(Refused):
        SealedLine(secured.b1.frontend, secured.keys["shop"], CurveKey(os.urandom(32)).public)


def test_a_socket_of_libzmq_gets_in_with_a_key_that_is_known_only(secured: Secured, shop: Client) -> None:
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        for key, served in ((secured.keys["shop"], True), (CurveKey(os.urandom(32)), False)):
            socket = context.socket(zmq.DEALER)
            socket.linger = 0
            socket.curve_publickey, socket.curve_secretkey = z85.encode(key.public), z85.encode(key.secret)
            socket.curve_serverkey = z85.encode(secured.public_key(secured.b1))
            socket.connect(secured.b1.frontend)
            socket.send_multipart([b"e", TASK, b"body"])
            assert bool(socket.poll(10_000 if served else 2_000)) is served
            assert not served or socket.recv_multipart()[2] == b"body"
            socket.close(0)
    finally:
        context.term()


def test_an_expired_key_opens_nothing(secured: Secured) -> None:
    """Neither a new connection nor an old one."""
    key = CurveKey(os.urandom(32))
    secured.keys["guest"] = key
    of_guest = [f'public_keys=["{key.public.hex()}"]', 'families=["main"]', 'call=["echo"]']
    secured.cli("config", "set", "principal/guest", *of_guest)
    wait_until(lambda: is_known(secured, "guest"), 10, "the guest let in")
    with Client(secured.b1.frontend, pass_file=secured.write_pass("guest", key), timeout=20.0) as client:
        assert client.request("echo", b"x") == b"x"
        soon = int(time.time() * 1000) + 2000
        secured.cli("config", "set", "principal/guest", *of_guest, f"expires_ms={soon}")
        wait_until(lambda: time.time() * 1000 > soon + 1500, 10, "the end of its time")
        with pytest.raises(Rejected, match="not_allowed"):
            client.request("echo", b"x")
    assert not is_known(secured, "guest")


def test_all_who_are_turned_away_are_counted(secured: Secured) -> None:
    member, known, own = secured.b1, secured.keys["shop"], secured.public_key(secured.b1)
    unknown, expired = CurveKey(os.urandom(32)), CurveKey(os.urandom(32))
    fields = [f'public_keys=["{expired.public.hex()}"]', 'families=["main"]', 'call=["echo"]', "expires_ms=1"]
    secured.cli("config", "set", "principal/late", *fields)
    before = secured.refused()
    for number in member.ports:
        for beginning in BEGINNINGS.values():
            stranger = connect(f"tcp://{member.machine.host}:{number}")
            stranger.sendall(beginning)
            assert is_sent_away(stranger, 64)
    expected: Counter[tuple[str, str, str]] = Counter()
    for name in (*PORTS, "config_pub", "peer"):
        expected += {(name, "no_key", ""): 2, (name, "foreign", ""): 3}
    for port in PORTS:
        for key, server in ((known, CurveKey(os.urandom(32)).public), (unknown, own), (expired, own)):
            with pytest.raises(Refused):
                SealedLine(getattr(member, port), key, server)
        expected += {(port, "foreign", ""): 1}
        expected += {(port, "unknown_key", key.public.hex()): 1 for key in (unknown, expired)}
    # One of before may be counted late.
    wait_until(lambda: secured.refused() - before >= expected, 10, f"{expected}")


def is_known(secured: Secured, name: str, at: str = "b1") -> bool:
    try:
        secured.line(name, at=at).socket.close()
    except Refused:
        return False
    return True


# -- who has no right -----------------------------------------------------------------------------------------------


def test_who_may_not_call_a_service_is_refused_and_told_what_to_do(secured: Secured, shop: Client) -> None:
    with pytest.raises(Rejected) as refused:
        shop.request("secret.plans", b"x")
    assert refused.value.reason == (
        "not_allowed: shop may not call secret.plans; "
        "an admin can allow it: famulus pass rights shop --call secret.plans"
    )


def test_who_may_not_serve_a_service_is_refused_whole(secured: Secured, shop: Client) -> None:
    worker = secured.line("gpu", port="backend")
    services = ["echo", "secret.plans"]
    header = {"request": "CONNECT", "type": "REQUEST", "identity": "sly", "services": services}
    worker.send(b"e", json.dumps(header).encode(), b"")
    answer = json.loads(heard(worker)[1])
    assert answer["request"] == "ERROR", answer
    assert "secret.plans" in answer["reason"]
    assert answer["reason"].startswith("not_allowed: ")
    assert "echo" not in answer["reason"]


def test_nobody_takes_over_the_session_of_another_principals_worker(secured: Secured, shop: Client) -> None:
    victim = secured.line("gpu", port="backend")
    serve_as(victim, "victim")
    thief = secured.line("rival", port="backend")
    header = {"request": "CONNECT", "type": "REQUEST", "identity": "victim", "services": ["spare"]}
    thief.send(b"e", json.dumps(header).encode(), b"")
    answer = json.loads(heard(thief)[1])
    assert answer.get("reason", "").startswith("not_allowed: "), answer
    victim.send(b"", b'{"request":"PING","type":"REQUEST"}', b"")
    assert json.loads(heard(victim)[1])["request"] == "PONG"


def serve_as(worker: SealedLine, identity: str) -> None:
    header = {"request": "CONNECT", "type": "REQUEST", "identity": identity, "services": ["spare"]}
    worker.send(b"e", json.dumps(header).encode(), b"")
    assert json.loads(heard(worker)[1])["request"] == "CONFIG"


def test_what_a_client_says_of_itself_in_a_header_counts_for_nothing(secured: Secured, shop: Client) -> None:
    """`principal` and `via` are believed from brokers only, even if there is such a principal."""
    fields = [f'public_keys=["{CurveKey(os.urandom(32)).public.hex()}"]', 'families=["main"]', 'call=["*"]']
    secured.cli("config", "set", "principal/boss", *fields, "--wait", "10")
    line = secured.line("shop")
    forged = {"request": "TASK", "type": "REQUEST", "service": "secret.plans", "principal": "boss", "via": ["b2"]}
    line.send(b"e", json.dumps(forged).encode(), b"")
    answer = json.loads(heard(line)[1])
    assert answer.get("reason") == "not_allowed: only brokers pass tasks on, and say for whom"


def heard(line: SealedLine) -> list[bytes]:
    """The next message, opened."""
    frames: list[bytes] = []
    while True:
        flags, size = line.read(2)
        if flags & 2:
            size = int.from_bytes(bytes([size]) + line.read(7), "big")
        frame, inner_flags = line.seal.open(line.read(size))
        frames.append(frame)
        if not inner_flags & 1:
            return frames


# -- what is changed on its way -------------------------------------------------------------------------------------


def flipped(line: SealedLine) -> bytes:
    message = bytearray(line.sealed(b"e", TASK, b"body"))
    message[len(message) // 2] ^= 1
    return bytes(message)


def repeated(line: SealedLine) -> bytes:
    return 2 * line.sealed(b"e", TASK, b"body")


def reordered(line: SealedLine) -> bytes:
    first, second = line.sealed(b"e", TASK, b"1"), line.sealed(b"e", TASK, b"2")
    return second + first


def one_missing(line: SealedLine) -> bytes:
    line.sealed(b"e", TASK, b"body")
    return line.sealed(b"e", TASK, b"body")


def an_old_number(line: SealedLine) -> bytes:
    line.seal.sent -= 1
    return line.sealed(b"e", TASK, b"body")


def not_sealed(line: SealedLine) -> bytes:
    return b"\x01\x01e" + bytes([1, len(TASK)]) + TASK + b"\x00\x04body"


@pytest.mark.parametrize("change", [flipped, repeated, reordered, one_missing, an_old_number, not_sealed])
def test_what_is_changed_on_its_way_ends_the_connection(secured: Secured, shop: Client, change: object) -> None:
    assert callable(change)
    line = secured.line("shop")
    # A connection that goes well otherwise.
    line.send(b"first", TASK, b"body")
    assert heard(line)[2] == b"body"
    line.socket.sendall(change(line))
    # The first of two that are equal is genuine, and may be answered.
    assert answers_until_closed(line) <= (change is repeated)


def answers_until_closed(line: SealedLine) -> int:
    for count in itertools.count():
        try:
            heard(line)
        except Refused:
            return count
        except TimeoutError:
            break
    raise AssertionError("the connection stays open")


def test_what_is_cut_off_is_never_taken_for_a_message(secured: Secured, shop: Client) -> None:
    task = TASK[:-1] + b',"message_id":"cut","client_token":"shop-1"}'
    line = secured.line("shop")
    line.socket.sendall(line.sealed(b"e", task, b"body")[:-1])
    line.socket.shutdown(1)
    assert line.is_closed()
    # If it had been taken for one, what came of that would be the answer now.
    again = secured.line("shop")
    again.send(b"e", task, b"whole")
    assert heard(again)[2] == b"whole"


# -- floods ---------------------------------------------------------------------------------------------------------


def test_ten_thousand_who_begin_and_do_not_go_on(secured: Secured, shop: Client) -> None:
    """Others are served meanwhile, new ones are let in, and it takes little memory and few descriptors."""
    dispatcher = secured.b1.broker.dispatcher
    before = memory_kib(dispatcher)
    begun = []
    try:
        for number in range(HALF_OPEN):
            begun.append(connect(secured.b1.frontend))
            begun[-1].sendall(zmtp.opening(b"DEALER")[:40])
            if number % 1000 == 0:
                goes_on(shop, times=5)
        with secured.client() as new:
            goes_on(new, times=5)
        assert memory_kib(dispatcher) - before < 50 * 1024
        assert len(os.listdir(f"/proc/{dispatcher}/fd")) < OPENINGS_MAX + 200
    finally:
        for each in begun:
            each.close()


def test_handshakes_at_full_speed_keep_nobody_out(secured: Secured, shop: Client) -> None:
    """One who has no valid key tries without a pause: it is held back, and the others are served."""
    stop = threading.Event()
    tried = [0]

    def knock() -> None:
        key = CurveKey(os.urandom(32))
        while not stop.is_set():
            with pytest.raises(Refused):
                SealedLine(secured.b1.frontend, key, secured.public_key(secured.b1))
            tried[0] += 1

    knockers = [threading.Thread(target=knock) for _ in range(2)]
    for knocker in knockers:
        knocker.start()
    try:
        goes_on(shop, times=500)
        wait_until(lambda: tried[0] > 200, 30, "two hundred tries")
        goes_on(shop, times=500)
    finally:
        stop.set()
        for knocker in knockers:
            knocker.join(30)


def test_who_begins_again_and_again_is_held_back(tmp_path: Path) -> None:
    """A beginning costs the broker more than whoever repeats it: from one address it takes only so many."""
    with closing(Secured(tmp_path)) as secured:
        beginning = recorded_beginning(secured)
        # No more than a broker keeps that have not said anything yet.
        seconds = 1
        begun = time.monotonic()
        knocking = [connect(secured.b1.frontend) for _ in range(AT_ONCE + seconds * PER_SECOND)]
        for each in knocking:
            each.sendall(beginning)
        answered = [is_answered(each) for each in knocking]
        assert all(answered), "each gets its turn"
        assert time.monotonic() - begun >= seconds
        # It lasts as long as somebody does that, and no longer.
        wait_until(lambda: is_known(secured, "shop"), 10, "the shop let in")


def recorded_beginning(secured: Secured) -> bytes:
    """All that a client says before it hears who the broker is."""
    steps = curve.client_opening(b"DEALER", secured.keys["shop"], secured.public_key(secured.b1), os.urandom)
    greeting = io.BytesIO(zmtp.opening(b"ROUTER")[:12] + b"CURVE".ljust(20, b"\0") + bytes(32))
    said, wanted = next(steps)
    beginning = said
    while heard := greeting.read(wanted):
        said, wanted = steps.send(heard)
        beginning += said
    return beginning


def is_answered(knocking: socket.socket) -> bool:
    """Whether more than a greeting comes back."""
    with knocking:
        heard = b""
        try:
            while len(heard) <= 64 and (chunk := knocking.recv(1000)):
                heard += chunk
        except ConnectionError:
            pass
        return len(heard) > 64


# -- whoever says who may come in is away ---------------------------------------------------------------------------


def test_while_nobody_says_who_may_come_nobody_comes_and_those_inside_work_on(tmp_path: Path) -> None:
    """The steward tells the dispatcher; one that has just started has heard nothing, and lets nobody in."""
    secured = Secured(tmp_path)
    try:
        secured.worker()
        with secured.client() as inside:
            goes_on(inside)
            os.kill(secured.b1.steward, signal.SIGSTOP)
            goes_on(inside)
            supervisor = secured.b1.broker.pid
            os.kill(supervisor, signal.SIGSTOP)  # it would start another steward
            former = secured.b1.broker.dispatcher
            os.kill(former, signal.SIGKILL)
            os.kill(supervisor, signal.SIGCONT)
            wait_until(lambda: secured.b1.broker.children("dispatcher") not in ([], [former]), 20, "another dispatcher")
            wait_until(lambda: answers(secured.b1.frontend), 20, "its port")
            assert not is_known(secured, "shop")
            assert not is_let_in(secured.b1.frontend)
            os.kill(secured.b1.steward, signal.SIGCONT)
            wait_until(lambda: is_known(secured, "shop"), 20, "the shop let in again")
            retry(inside, "echo")
    finally:
        secured.close()


def answers(address: str) -> bool:
    try:
        connect(address).close()
    except OSError:
        return False
    return True


# -- revoking and rotating ------------------------------------------------------------------------------------------


def test_who_is_revoked_is_refused_within_2_s_and_nobody_else_notices(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    try:
        secured.worker()
        secured_key = CurveKey(os.urandom(32))
        secured.keys["other"] = secured_key
        fields = [f'public_keys=["{secured_key.public.hex()}"]', 'families=["main"]', 'call=["echo"]']
        secured.cli("config", "set", "principal/other", *fields)
        secured.write_pass("other", secured_key)
        wait_until(lambda: is_known(secured, "other"), 10, "the other let in")
        with secured.client() as revoked, secured.client("other") as other:
            books = Book(revoked, "revoked"), Book(other, "other")
            stop = threading.Event()
            loads = [threading.Thread(target=keep_asking, args=(book, stop)) for book in books]
            for load in loads:
                load.start()
            wait_until(lambda: all(len(book.ended) > 50 for book in books), 20, "both under way")
            secured.cli("pass", "revoke", "shop")
            heard_at = time.monotonic()
            wait_until(lambda: time.monotonic() > heard_at + 3, 20, "three seconds")
            stop.set()
            for load in loads:
                load.join(30)
            for book in books:
                book.wait_for_all()
        late = [each for each, at in books[0].sent.items() if at > heard_at + 2]
        assert late
        assert books[0].outcomes(*late) == {("REJECTED", "not_allowed")}
        assert books[1].outcomes() == {("OK", "")}
        assert not is_known(secured, "shop")
    finally:
        secured.close()


def test_a_worker_that_is_revoked_gets_nothing_after_2_s_and_the_others_go_on(
    secured: Secured, ledger_workers: Callable[..., WorkerProcess]
) -> None:
    for name, right in (("temp", "serve"), ("stays", "serve"), ("asks", "call")):
        key = secured.keys[name] = CurveKey(os.urandom(32))
        secured.write_pass(name, key)
        fields = [f'public_keys=["{key.public.hex()}"]', 'families=["main"]', f'{right}=["spare"]']
        secured.cli("config", "set", f"principal/{name}", *fields)
    wait_until(lambda: is_known(secured, "asks"), 10, "all let in")
    revoked, stays = (
        ledger_workers(secured.b1.backend, "spare", env={"FAMULUS_PASS": str(secured.pass_of(name))})
        for name in ("temp", "stays")
    )
    with secured.client("asks") as client:
        book = Book(client, "asks")
        stop = threading.Event()
        load = threading.Thread(target=keep_asking, args=(book, stop, "spare"))
        load.start()
        try:
            wait_until(lambda: min(len(revoked.ledger), len(stays.ledger)) > 20, 20, "both at work")
            secured.cli("pass", "revoke", "temp")
            heard_at = time.monotonic()
            wait_until(lambda: any(at > heard_at + 2.5 for at in list(book.sent.values())), 20, "tasks after that")
        finally:
            stop.set()
            load.join(30)
        book.wait_for_all()
    its_own = {entry.message_id for entry in revoked.ledger}
    late = {each for each, at in book.sent.items() if at > heard_at + 2}
    assert late
    assert not late & its_own
    # What it had been given when it was dropped is in doubt, and nothing else.
    lost = {each for each in book.sent if book.ended[each].outcome != "OK"}
    assert len(lost) <= SLOTS
    assert {book.ended[each].outcome for each in lost} <= {"UNKNOWN"}
    assert not lost & (late | {entry.message_id for entry in stays.ledger})


def keep_asking(book: Book, stop: threading.Event, service: str = "echo") -> None:
    while not stop.is_set():
        if len(book.open) < 20:
            book.ask(service, b"x")
        else:
            time.sleep(0.001)


def test_keys_of_clients_and_workers_are_rotated_without_a_task_that_fails(tmp_path: Path) -> None:
    secured = Secured(tmp_path)
    try:
        worker = secured.worker()
        with secured.client() as old:
            old_book = Book(old, "old")
            stop = threading.Event()
            load = threading.Thread(target=keep_asking, args=(old_book, stop))
            load.start()
            for name in ("shop", "gpu"):
                secured.cli("pass", "rotate", name, "--out", str(secured.pass_of(f"{name}2")), "--wait", "10")
                # Both keys open a connection until the rotation is finished.
                assert is_known(secured, name)
            new_worker = secured.worker("gpu2")
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
            with secured.client("shop2") as new:
                new_book = Book(new, "new")
                new_stop = threading.Event()
                new_load = threading.Thread(target=keep_asking, args=(new_book, new_stop))
                new_load.start()
                wait_until(lambda: len(new_book.ended) > 50, 20, "the new one under way")
                stop.set()
                load.join(30)
                old_book.wait_for_all()
                for name in ("shop", "gpu"):
                    secured.cli("pass", "rotate", name, "--finish", "--wait", "10")
                wait_until(lambda: not is_known(secured, "shop"), 10, "the old key forgotten")
                so_far = len(new_book.ended)
                wait_until(lambda: len(new_book.ended) > so_far + 50, 20, "tasks after that")
                new_stop.set()
                new_load.join(30)
                new_book.wait_for_all()
            assert new_worker.running
        assert old_book.outcomes() == new_book.outcomes() == {("OK", "")}
    finally:
        secured.close()


# -- secrets stay where they are ------------------------------------------------------------------------------------


def test_a_pass_that_others_may_read_is_refused(secured: Secured, tmp_path: Path) -> None:
    copy = tmp_path / "shop.pass"
    copy.write_bytes(secured.pass_of("shop").read_bytes())
    copy.chmod(0o640)
    with pytest.raises(SettingsError, match=r"others may read this pass \(mode 640\); run: chmod 600"):
        Client(secured.b1.frontend, pass_file=copy)


#: All that the HTTP port tells without a name.
PAGES = (
    *(f"/api/v1/{name}" for name in ("status", "services", "workers", "brokers", "errors", "config", "conflicts")),
    *(f"/api/v1/{name}" for name in ("history", "failures", "findings", "services/echo", "events")),
    *("/", "/metrics", "/healthz", "/readyz"),
)


def test_no_secret_is_shown_anywhere(tmp_path: Path) -> None:
    """In no log, traceback or journal, no command line or environment of a process, no status, and at no HTTP port."""
    journal = tmp_path / "journal"
    flags = ("--http-port", "0", "--log-level", "debug", "--journal-folder", str(journal))
    # With a limit of its own, it is started as a user would: with a command line and an environment of its own.
    secured = Secured(tmp_path, flags=flags, ulimit="-n 4096")
    shop = secured.pass_of("shop")
    shown: dict[str, str] = {}
    # So is a worker that wants another environment of Python than ours.
    worker = WorkerProcess(
        *(str(HERE / "ledger_worker.py"), secured.b1.backend, str(tmp_path / "ledger"), "4", "echo"),
        env={"FAMULUS_PASS": str(secured.pass_of("gpu")), "PYTHONHASHSEED": "1"},
    )
    try:
        with secured.client() as client:
            goes_on(client)
            with pytest.raises(Rejected):
                client.request("secret.plans", b"x")
            with pytest.raises(TaskError):
                client.request("echo", b"fail")
        secured.cli("pass", "rotate", "shop", "--out", str(secured.pass_of("shop2")), "--wait", "10")
        address = address_of(secured.b1.broker)
        for words in (("pass", "show", "shop"), ("config", "show", "--json"), ("status", "--address", address)):
            shown[" ".join(words)] = secured.cli(*words)
        shown["status --json"] = secured.cli("status", "--address", address, "--json")
        for page in PAGES:
            shown[page] = read_page(address + page)
        holder = [sys.executable, str(HERE / "pass_holder.py"), secured.b1.frontend, secured.b1.backend, str(shop)]
        failed = warm.run(holder, capture_output=True, text=True, timeout=60)
        assert (failed.returncode, failed.stdout.count("Traceback")) == (0, 4), failed.stderr
        shown["tracebacks"] = failed.stdout + failed.stderr
        secrets = {
            json.loads(secured.pass_of(name).read_bytes())["secret_key"] for name in ("shop", "shop2", "gpu", "desk")
        }
        folder = secured.b1.path
        secrets |= {(folder / "join.secret").read_text().strip(), PASSWORD}
        secrets.add((folder / "broker.key").read_text().split()[5])
        secrets.add((folder / "tls.key").read_text().splitlines()[1])
        secrets.update(re.findall(r'"hash":"([^"]+)"', (folder / "edits.log").read_text("latin-1")))
        assert len(secrets) == 9
        assert all(len(each) > 20 for each in secrets)
        pids = [secured.b1.broker.pid, *descendants(secured.b1.broker.pid), worker.pid]
        assert len(pids) >= 6
        for pid in pids:
            for file in ("cmdline", "environ"):
                shown[f"{file} of {pid}"] = Path(f"/proc/{pid}/{file}").read_text("latin-1")
            assert "warm_python" not in shown[f"cmdline of {pid}"], "its own"
        secured.b1.broker.stop()
        shown |= {"its log": secured.b1.broker.output, "the worker's log": worker.output}
        assert "ValueError: as you wish" in shown["the worker's log"]
        shown |= {str(file): file.read_text("latin-1") for file in journal.rglob("*") if file.is_file()}
        for secret in secrets:
            forms = {secret}
            if re.fullmatch(r"[0-9a-f]{64}", secret):
                raw = bytes.fromhex(secret)
                forms |= {raw.decode("latin-1"), repr(raw)[2:-1]}
            assert not [where for where, text in shown.items() if any(form in text for form in forms)]
    finally:
        worker.close()
        secured.close()


def read_page(url: str) -> str:
    """All of it; of one that never ends, what comes first."""
    with urllib.request.urlopen(url, timeout=10) as answer:
        told: bytes = answer.read1(1 << 20) if url.endswith("/events") else answer.read()
        assert told
        return told.decode("latin-1")


# -- between brokers ------------------------------------------------------------------------------------------------


def test_a_task_that_is_handed_over_needs_the_rights_of_its_client_there_too(tmp_path: Path) -> None:
    """b2 serves what b1 does not; a client of b1 gets there with the right, and not after it was revoked.

    b1 does not hear of that, so it goes on passing the tasks on, and only b2 can refuse them.
    """
    secured = Secured(tmp_path, "b2", flags=("--http-port", "0"))
    try:
        secured.worker(at="b2")
        with secured.client() as client:
            wait_until(lambda: went_well(client), 20, "a task handed over")
            # The supervisor would start another steward.
            for pid in (secured.b1.broker.pid, secured.b1.steward):
                os.kill(pid, signal.SIGSTOP)
            goes_on(client)
            secured.cli("pass", "revoke", "shop", at="b2")
            wait_until(lambda: not is_known(secured, "shop", "b2"), 10, "b2 knows")
            assert is_known(secured, "shop"), "b1 does not"
            with pytest.raises(OutcomeError) as refused:
                client.request("echo", b"x", timeout=1.0)
            assert refused.value.outcome == "REJECTED"
            by_b2 = ("frontend", "not_allowed", "shop")
            wait_until(lambda: secured.refused("b2")[by_b2], 10, "its refusal")
            assert by_b2 not in secured.refused("b1")
    finally:
        secured.close()


def went_well(client: Client) -> bool:
    try:
        return client.request("echo", b"x", timeout=2.0) == b"x"
    except OutcomeError:
        return False


def test_a_broker_that_was_forgotten_is_nobody_any_more(tmp_path: Path) -> None:
    secured = Secured(tmp_path, "b2")
    try:
        from famulus.broker.keys import BrokerKey

        secured.worker()
        secured.keys["b2"] = BrokerKey.load(secured.network["b2"].path / "broker.key").curve_key()
        wait_until(lambda: is_known(secured, "b2"), 10, "b2 let in")
        inside = secured.line("b2")
        passed_on = TASK[:-1] + b',"via":["b2"],"principal":"shop"}'
        inside.send(b"e", passed_on, b"body")
        assert heard(inside)[2] == b"body"
        secured.cli("broker-admin", "forget", "b2", "--force")
        wait_until(lambda: not is_known(secured, "b2"), 10, "b2 kept out")
        inside.send(b"e", passed_on, b"body")
        assert json.loads(heard(inside)[1]).get("reason", "").startswith("not_allowed")
    finally:
        secured.close()
