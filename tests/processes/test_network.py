"""Networks of real brokers: edits reach all of them, whoever is killed, stopped, damaged or apart meanwhile."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.processes.conftest import Book, Raw, WorkerProcess, retry, wait_until
from tests.processes.networks import FLAGS, PASSWORD, STEP_S, Admin, Member, Network, famulus, port_flags
from tests.processes.ports import free_ports

from famulus import Client
from famulus.broker.folder import Folder


@pytest.fixture
def network(tmp_path: Path) -> Iterator[Network]:
    network = Network(tmp_path)
    yield network
    network.close()


@pytest.fixture
def pair(network: Network) -> Network:
    network.found("b1")
    network.join("b2")
    network.wait_until_in_step(10)
    return network


@pytest.fixture(scope="module")
def trio(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Network]:
    """Three brokers for tests that leave them as they were; the third was let in by the second."""
    with ExitStack() as closing:
        network = Network(tmp_path_factory.mktemp("trio"))
        closing.callback(network.close)
        network.found("b1")
        network.join("b2")
        network.join("b3", at="b2")
        wait_until(lambda: all(member.is_active() for member in network.members.values()), 10, "all active")
        network.wait_until_in_step(10)
        yield network


def others_of(network: Network, identity: str) -> list[Member]:
    return [member for member in network.members.values() if member.identity != identity]


# -- three brokers ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("at", ["b1", "b2", "b3"])
def test_an_edit_at_one_is_soon_seen_by_all(trio: Network, at: str) -> None:
    key = f"service/made-at-{at}"
    edit = trio[at].admin.put(key, {"timeout_ms": 4321})
    for member in others_of(trio, at):
        wait_until(lambda member=member: member.admin.value(key) == {"timeout_ms": 4321}, STEP_S, "the edit there")  # type: ignore[misc]
    trio.wait_until_in_step()
    wait_until(lambda: trio[at].admin.told("seen", edits=[edit])["seen"] == 3, STEP_S, "that all are known to have it")
    brokers = trio[at].admin.told("show")["brokers"]
    assert sorted(brokers) == ["b1", "b2", "b3"]
    assert all(broker["alive"] and broker["same"] and broker["state"] == "active" for broker in brokers.values())


def test_a_worker_and_a_client_at_a_broker_of_a_network_work_as_ever(
    trio: Network, echo_workers: Callable[..., WorkerProcess]
) -> None:
    b2 = trio["b2"].broker
    echo_workers(b2.backend)
    with Client(b2.frontend) as client:
        assert list(client.map("echo", [b"%d" % number for number in range(2000)])) == [
            b"%d" % number for number in range(2000)
        ]


def test_an_edit_of_a_service_holds_for_the_next_task(
    trio: Network, ledger_workers: Callable[..., WorkerProcess], raw: Callable[..., Raw]
) -> None:
    """The routers hear of it, and what the dispatcher has remembered is void."""
    worker = ledger_workers(trio["b1"].broker.backend, "short", slots=8)
    client = raw(trio["b1"].broker.frontend)

    def outcome() -> str:
        client.tell("TASK", service="short", body=b"sleep 0.5")
        answer = client.hear()
        return f"{answer['outcome']} {answer.get('reason', '').partition(':')[0]}".strip()

    assert outcome() == "OK"
    trio["b3"].admin.put("service/short", {"timeout_ms": 100})
    wait_until(lambda: outcome() == "UNKNOWN expired", STEP_S + 2, "the new time-out at another broker")
    assert worker.running


def test_a_disabled_broker_turns_tasks_away_until_it_is_enabled(
    trio: Network, echo_workers: Callable[..., WorkerProcess], raw: Callable[..., Raw]
) -> None:
    b3 = trio["b3"]
    echo_workers(b3.broker.backend)
    client = raw(b3.broker.frontend)

    def outcome() -> str:
        client.tell("TASK", service="echo", body=b"x")
        answer = client.hear()
        return f"{answer['outcome']} {answer.get('reason', '')}".strip()

    wait_until(lambda: outcome() == "OK", 10, "a task that goes well")
    trio["b1"].admin.put("broker_state/b3", {"state": "disabled"})
    wait_until(lambda: outcome() == "REJECTED disabled: this broker is disabled", STEP_S, "that it is disabled")
    # Its own admins can ask it what holds, and enable it, and nothing else.
    assert b3.admin.told("show")["brokers"]["b3"]["state"] == "disabled"
    draft = {"key": "service/x", "op": "PUT", "value": {}, "parents": []}
    assert b3.admin.ask("edit", drafts=[draft])[0].startswith("disabled: ")
    b3.admin.put("broker_state/b3", {"state": "active"})
    wait_until(lambda: outcome() == "OK", 10, "that it works again")
    trio.wait_until_in_step()


def test_a_wrong_password_is_refused_and_costs_time(trio: Network) -> None:
    admin = trio["b2"].admin
    assert admin.ask("show", password="wrong") == ("not_allowed: wrong name or password", {})
    wait_until(lambda: not admin.ask("show")[0], STEP_S, "that one may try again")
    assert PASSWORD not in trio["b2"].broker.output


def test_kill_of_a_steward_tasks_go_on_and_edits_made_meanwhile_arrive(
    trio: Network, echo_workers: Callable[..., WorkerProcess]
) -> None:
    b2 = trio["b2"]
    worker = echo_workers(b2.broker.backend, "kept")
    former = b2.steward
    with Client(b2.broker.frontend) as client:
        retry(client, "kept")
        book = Book(client)
        os.kill(former, signal.SIGKILL)
        trio["b1"].admin.put("service/while-away", {"timeout_ms": 77})
        # All the time in which there is none.
        wait_until(
            lambda: book.ask("kept", b"x") and set(b2.broker.children("steward")) - {former}, 10, "a new steward"
        )
        b2.broker.wait_for_line(r"the steward died \(signal SIGKILL\); starting it again")
        wait_until(lambda: "timeout_ms" in (value_or_none(b2.admin, "service/while-away") or {}), 10, "the edit")
        for _ in range(100):
            book.ask("kept", b"x")
        book.wait_for_all()
        assert book.outcomes() == {("OK", "")}
    assert worker.times_ready() == 1
    trio.wait_until_in_step(10)
    b2.admin.put("service/after", {})
    wait_until(lambda: trio["b3"].admin.value("service/after") == {}, STEP_S, "an edit of the new steward elsewhere")


def value_or_none(admin: Admin, key: str) -> Any:
    """None also while nobody answers."""
    reason, body = admin.ask("show", prefix=key)
    if reason:
        assert reason.startswith("broker_lost: "), reason
        return None
    return body["keys"].get(key, {}).get("value")


# -- killed and damaged ---------------------------------------------------------------------------------------------


def test_kill_of_a_whole_broker_it_catches_up_when_it_is_started_again(
    pair: Network, echo_workers: Callable[..., WorkerProcess]
) -> None:
    b1, b2 = pair["b1"], pair["b2"]
    kept = b2.admin.put("service/kept", {"timeout_ms": 1})
    b2.kill()
    b1.admin.put("service/missed", {"timeout_ms": 2})
    b1.admin.put("service/kept", {"timeout_ms": 3})
    wait_until(lambda: not b1.admin.told("show")["brokers"]["b2"]["alive"], 10, "that b1 takes it for lost")
    b2.start()
    pair.wait_until_in_step(STEP_S)
    assert b2.admin.value("service/missed") == {"timeout_ms": 2}
    assert b2.admin.value("service/kept") == {"timeout_ms": 3}
    assert kept in [each["id"] for each in b2.admin.told("history", key="service/kept")["edits"]]
    wait_until(lambda: b1.admin.told("show")["brokers"]["b2"]["alive"], STEP_S, "that b1 hears it again")
    echo_workers(b2.broker.backend)
    with Client(b2.broker.frontend) as client:
        retry(client, "echo")


@pytest.mark.parametrize("where", ["in the middle", "at the end"])
def test_a_damaged_record_is_warned_of_and_pulled_again(pair: Network, where: str) -> None:
    b2 = pair["b2"]
    for number in range(3):
        b2.admin.put(f"service/s{number}", {"timeout_ms": number + 1})
    pair.wait_until_in_step()
    b2.kill()
    damaged = "service/s1" if where == "in the middle" else "service/s2"
    log = Folder(b2.path).edits
    data = bytearray(log.read_bytes())
    data[data.index(f'"{damaged}"'.encode())] ^= 0xFF
    log.write_bytes(data)
    b2.start()
    b2.broker.wait_for_line(r"WARNING .*the edit log was damaged \(\d+ bytes at \d+\)")
    pair.wait_until_in_step(STEP_S)
    assert [b2.admin.value(f"service/s{number}")["timeout_ms"] for number in range(3)] == [1, 2, 3]
    b2.kill()
    b2.start()
    pair.wait_until_in_step(STEP_S)
    assert b2.admin.value(damaged) is not None


def test_a_disk_that_is_full_stops_neither_tasks_nor_the_broker(
    pair: Network, echo_workers: Callable[..., WorkerProcess]
) -> None:
    b1, b2 = pair["b1"], pair["b2"]
    echo_workers(b2.broker.backend)
    size = Folder(b2.path).edits.stat().st_size
    steward = b2.steward
    hard = resource.getrlimit(resource.RLIMIT_FSIZE)[1]
    resource.prlimit(steward, resource.RLIMIT_FSIZE, (size + 100, hard))
    b1.admin.put("service/large", {"note": "x" * 1000})
    b2.broker.wait_for_line("ERROR .*edits of peers cannot be written")
    with Client(b2.broker.frontend) as client:
        retry(client, "echo")
    draft = {"key": "service/mine", "op": "PUT", "value": {}, "parents": []}
    assert b2.admin.ask("edit", drafts=[draft])[0].startswith("overload: it could not be written to the disk")
    assert b2.steward == steward
    resource.prlimit(steward, resource.RLIMIT_FSIZE, (hard, hard))
    b2.broker.wait_for_line("the disk takes edits again")
    b2.admin.put("service/mine", {})
    pair.wait_until_in_step()
    b2.kill()
    b2.start()
    assert b2.admin.value("service/large") == {"note": "x" * 1000}


# -- apart ----------------------------------------------------------------------------------------------------------


def test_two_edits_of_a_key_while_apart_are_a_conflict_until_an_edit_names_both(pair: Network) -> None:
    b1, b2 = pair["b1"], pair["b2"]
    b2.kill()
    first = b1.admin.put("service/echo", {"timeout_ms": 1})
    b1.kill()
    b2.start()
    second = b2.admin.put("service/echo", {"timeout_ms": 2})
    b1.start()
    pair.wait_until_in_step(STEP_S)
    shown = [member.admin.told("show", prefix="service/echo") for member in (b1, b2)]
    assert [each["conflicts"] for each in shown] == [["service/echo"]] * 2
    assert shown[0]["keys"] == shown[1]["keys"], "both see the same value and the same heads"
    assert sorted(head["id"] for head in shown[0]["keys"]["service/echo"]["heads"]) == sorted([first, second])
    b1.broker.wait_for_line("WARNING .*service/echo has 2 heads: an admin has to choose")
    # Who names one head only has not seen the conflict.
    half = {"key": "service/echo", "op": "PUT", "value": {"timeout_ms": 3}, "parents": [first]}
    assert b2.admin.ask("edit", drafts=[half])[0].startswith("conflict: ")
    b2.admin.put("service/echo", {"timeout_ms": 3})
    pair.wait_until_in_step()
    for member in (b1, b2):
        assert member.admin.told("show")["conflicts"] == []
        assert member.admin.value("service/echo") == {"timeout_ms": 3}
        assert len(member.admin.told("history", key="service/echo")["edits"]) == 3


def test_a_stopped_steward_is_behind_and_then_in_step(pair: Network) -> None:
    b1, b2 = pair["b1"], pair["b2"]
    steward = b2.steward
    os.kill(steward, signal.SIGSTOP)
    edit = b1.admin.put("service/echo", {})
    wait_until(lambda: not b1.admin.told("show")["brokers"]["b2"]["alive"], 10, "that b1 takes it for lost")
    assert b1.admin.told("seen", edits=[edit]) == {"seen": 1, "brokers": 2, "missing": ["b2"]}
    with suppress(ProcessLookupError):  # on a slow machine its supervisor may have lost patience
        os.kill(steward, signal.SIGCONT)
    pair.wait_until_in_step(10)
    wait_until(lambda: b1.admin.told("seen", edits=[edit])["seen"] == 2, 10, "that b1 knows")


# -- who joins ------------------------------------------------------------------------------------------------------


def test_a_wrong_secret_is_one_clear_line_and_the_next_try_goes_well(network: Network) -> None:
    b1 = network.found()
    path = network.path / "b2"
    ports = port_flags(free_ports(4))
    join = ("broker", "--folder", str(path), "--join", f"127.0.0.1:{b1.peer_port}", "--identity", "b2", *ports)
    refused = famulus(*join, env={"FAMULUS_JOIN_SECRET": "wrong"}, code=2)
    asking, complaint = refused.stderr.splitlines()
    assert asking.startswith("asking the broker at")
    assert complaint == (
        f"famulus: the broker at tcp://127.0.0.1:{b1.peer_port} closes the connection: "
        "the secret is not that of its network, or has expired"
    )
    assert refused.stdout == ""
    assert b1.admin.told("show")["brokers"].keys() == {"b1"}
    network.join("b2")
    assert b1.admin.told("show")["brokers"].keys() == {"b1", "b2"}


def test_joining_where_nobody_is_or_nowhere(network: Network) -> None:
    path = network.path / "b2"
    secret = network.path / "secret"
    flags = ("broker", "--folder", str(path), "--identity", "b2", "--secret-file", str(secret))
    missing = famulus(*flags, "--join", "127.0.0.1:9", code=2)
    assert "secret: cannot be read" in missing.stderr
    secret.write_text("secret\n")
    nowhere = famulus(*flags, "--join", "no where:1", code=2)
    assert "is not a broker's address" in nowhere.stderr.splitlines()[-1]
    no_file = famulus(*flags, "--join", "nowhere", code=2)
    assert no_file.stderr == "famulus: nowhere: cannot be read (No such file or directory)\n"
    assert Folder(path).is_empty


def test_a_folder_that_is_copied_or_used_cannot_be_started_twice(network: Network) -> None:
    b1 = network.found()
    copy = network.path / "copy"
    shutil.copytree(b1.path, copy)
    for folder in (copy, b1.path):
        second = famulus("broker", "--folder", str(folder), *FLAGS, code=2)
        complaint = second.stderr.splitlines()[-1]
        assert complaint.startswith("famulus: ")
        assert "is in use" in complaint or "another process uses it" in complaint
    assert b1.admin.told("show")["broker"] == "b1", "the first one is as it was"


def test_a_network_is_made_in_a_folder_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "b1"
    init = ("init", str(path), "--identity", "b1", *port_flags([7001, 7002, 7003, 7004]))
    env = {"FAMULUS_ADMIN_PASSWORD": PASSWORD}
    said = famulus(*init, env=env).stdout
    assert "broker b1 of family main, admin admin" in said
    assert f"--join {path}.invitation" in said
    assert Path(f"{path}.invitation").stat().st_mode & 0o777 == 0o600
    assert (path / "join.secret").read_text().strip() not in said
    again = famulus(*init, env=env, code=2)
    assert again.stderr == f"famulus: {path}: is not empty; a new broker needs a folder of its own\n"
    odd = famulus("init", str(tmp_path / "b2"), "--admin", "a/b", env=env, code=2)
    assert odd.stderr.startswith("famulus: admin: ")
    assert not (tmp_path / "b2").exists()


def test_a_folder_that_is_no_brokers_is_one_clear_line(tmp_path: Path) -> None:
    for folder in (tmp_path / "none", tmp_path):
        complaint = famulus("broker", "--folder", str(folder), code=2).stderr
        assert complaint.count("\n") == 1
        assert "network.json" in complaint


# -- what must not bring a broker down ------------------------------------------------------------------------------


def test_an_address_that_is_none_and_two_brokers_at_one_place_bring_nobody_down(pair: Network) -> None:
    """Any admin's edit can say anything, and all brokers read it."""
    b1, b2 = pair["b1"], pair["b2"]
    place = b1.admin.value("broker/b2")
    stewards = [b1.steward, b2.steward]
    b1.admin.put("broker/odd", place | {"host": "no host", "public_key": "ab" * 32})
    for number, twin in enumerate(("broker/twin-1", "broker/twin-2")):
        b1.admin.put(twin, place | {"host": "127.0.0.2", "public_key": f"{number}" * 64})
    pair.wait_until_in_step()
    # One that is alive, too: the dispatcher is told of it, to hand tasks over.
    wait_until(lambda: b1.admin.told("show")["brokers"]["b2"]["alive"], STEP_S, "b2 alive for b1")
    dispatcher = b1.broker.dispatcher
    b1.admin.put("broker/b2", place | {"host": "no host"})
    pair.wait_until_in_step()
    b1.admin.put("broker/b2", place)
    assert b1.broker.dispatcher == dispatcher
    for key in ("broker/odd", "broker/twin-1", "broker/twin-2"):
        b2.admin.put(key, None)
    pair.wait_until_in_step()
    assert [b1.steward, b2.steward] == stewards
    wait_until(lambda: b1.admin.told("show")["brokers"]["b2"]["alive"], STEP_S, "b2 alive for b1")


def test_a_broker_that_was_removed_takes_no_tasks_any_more(pair: Network, raw: Callable[..., Raw]) -> None:
    b1, b2 = pair["b1"], pair["b2"]
    wait_until(b2.is_active, 10, "that b2 takes tasks")
    b1.admin.put("broker/b2", None)
    wait_until(lambda: not b2.is_active(), STEP_S, "that it takes none")
    b2.kill()
    complaint = famulus("broker", "--folder", str(b2.path), *FLAGS, code=2).stderr
    assert "its config does not know broker 'b2' (any more)" in complaint


def test_a_flood_of_wrong_passwords_does_not_bring_the_steward_down(
    network: Network, echo_workers: Callable[..., WorkerProcess], raw: Callable[..., Raw]
) -> None:
    """Checking one takes its time on purpose; a steward that says nothing for 5 s is killed."""
    b1, b2 = network.found("b1", slow_password=True), network.join("b2")
    network.wait_until_in_step(10)
    echo_workers(b2.broker.backend)
    steward, attackers = b2.steward, [raw(b2.broker.frontend) for _ in range(4)]
    begun = time.monotonic()
    answered = number = 0
    while time.monotonic() < begun + 6.5:
        for attacker in attackers:
            while number - answered < 90:
                attacker.tell("MANAGE", body=b'{"password": "wrong"}', username=f"admin-{number}", command="show")
                number += 1
            while attacker.socket.poll(5):
                attacker.socket.recv_multipart()
                answered += 1
    assert b2.steward == steward
    assert b1.admin.told("show")["brokers"]["b2"]["alive"], "its peers hear it all the time"
    with Client(b2.broker.frontend) as client:
        retry(client, "echo")


def test_rubbish_at_the_peers_door_does_no_harm(pair: Network, raw: Callable[..., Raw]) -> None:
    b1, b2 = pair["b1"], pair["b2"]
    stewards = [b1.steward, b2.steward]
    stranger = raw(f"tcp://127.0.0.1:{b1.peer_port}")
    for number in range(3000):
        stranger.send(*[random.Random(number).randbytes(number % 50) for _ in range(number % 4 + 1)])
    b2.admin.put("service/echo", {})
    pair.wait_until_in_step()
    assert [b1.steward, b2.steward] == stewards
