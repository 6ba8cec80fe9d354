"""Gearman by hand: packets come whole out of any stream, and the worker says the right thing at the right time."""

from __future__ import annotations

import json
import socket
import sys

import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from famulus.errors import BenchFailed
from famulus.lab.bench.fleet import START_S, Crew
from famulus.lab.bench.peers import contest, gearman, gearman_raw, peer, side
from famulus.lab.bench.peers.gearman_raw import (
    AHEAD,
    CAN_DO,
    GRAB_JOB,
    JOB_ASSIGN,
    NO_JOB,
    NOOP,
    PRE_SLEEP,
    WORK_COMPLETE,
    Echo,
    Packet,
    cut,
    packet,
)
from famulus.lab.bench.peers.peer import absence, find_program
from famulus.lab.commands.bench_echo import peers
from famulus.lab.processes import free_port

# -- packets ----------------------------------------------------------------------------------------------------------


def test_a_packet_is_as_the_protocol_says() -> None:
    assert packet(CAN_DO, b"echo") == b"\0REQ" + bytes([0, 0, 0, 1, 0, 0, 0, 4]) + b"echo"
    assert packet(WORK_COMPLETE, b"H:1", b"a\0b") == b"\0REQ" + bytes([0, 0, 0, 13, 0, 0, 0, 7]) + b"H:1\0a\0b"


@given(st.lists(st.tuples(st.integers(1, 42), st.binary(max_size=50)), max_size=8), st.integers(1, 40))
def test_packets_come_whole_wherever_the_stream_comes_apart(sent: list[Packet], length: int) -> None:
    stream = b"".join(packet(kind, body) for kind, body in sent)
    unread, found = bytearray(), []
    for at in range(0, len(stream), length):
        unread += stream[at : at + length]
        found += cut(unread)
    assert found == sent


# -- the worker -------------------------------------------------------------------------------------------------------


def read(said: list[bytes]) -> list[Packet]:
    return cut(bytearray(b"".join(said)))


def test_a_worker_sleeps_until_it_is_woken_and_then_asks_ahead() -> None:
    echo = Echo()
    assert read(echo.greeting()) == [(CAN_DO, b"echo"), (PRE_SLEEP, b"")]
    assert read(echo.answers([(NOOP, b"")])) == [(GRAB_JOB, b"")] * AHEAD
    assert echo.answers([(NOOP, b"")]) == [], "it has asked for as many as it wants"


def test_a_job_is_answered_with_its_body_and_the_next_is_asked_for() -> None:
    echo = Echo()
    echo.answers([(NOOP, b"")])
    said = read(echo.answers([(JOB_ASSIGN, b"H:1\0echo\0some\0bytes")]))
    assert said == [(WORK_COMPLETE, b"H:1\0some\0bytes"), (GRAB_JOB, b"")]


def test_a_worker_sleeps_when_nothing_that_it_asked_for_is_left() -> None:
    echo = Echo()
    echo.answers([(NOOP, b"")])
    assert echo.answers([(NO_JOB, b"")] * (AHEAD - 1)) == []
    assert read(echo.answers([(NO_JOB, b"")])) == [(PRE_SLEEP, b"")]
    assert read(echo.answers([(NOOP, b"")])) == [(GRAB_JOB, b"")] * AHEAD


def test_what_a_worker_does_not_expect_is_an_error() -> None:
    with pytest.raises(BenchFailed, match="gearmand said 19"):
        Echo().answers([(19, b"ERR\0what?")])


# -- who takes part ---------------------------------------------------------------------------------------------------


def test_by_hand_it_needs_no_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "find_program", lambda _: "/a/path")
    monkeypatch.setattr(peer, "has_library", lambda _: False)
    assert absence(gearman_raw.PEER.needs) is None
    assert absence(gearman.PEER.needs) == "no library gearman (pip install pygearman)"


def test_without_its_server_both_are_absent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(peer, "find_program", lambda _: None)
    monkeypatch.setattr(peer, "has_library", lambda _: True)
    result = contest.contest(contest.Plan(rounds=1), side.chosen(["gearman", "gearman_raw"]), lambda _: None)
    reason = "no program gearmand (Debian package gearman-job-server)"
    assert result["absent"] == {"gearman": reason, "gearman_raw": reason}
    assert result["medians"] == {}


# -- servers that say nothing -----------------------------------------------------------------------------------------

LISTENING = "import socket, time; time.sleep(0.3); s = socket.create_server(('127.0.0.1', {})); time.sleep(60)"


def test_a_silent_server_is_ready_when_somebody_can_connect() -> None:
    port = free_port()
    with Crew() as crew:
        crew.start("server", [sys.executable, "-c", LISTENING.format(port)]).wait_for_port(port)
        socket.create_connection(("127.0.0.1", port)).close()


def test_a_silent_server_that_ends_is_not_waited_for() -> None:
    assert START_S > 10, "else it would prove nothing"
    with Crew() as crew, pytest.raises(BenchFailed, match="the server ended with 3"):
        crew.start("server", [sys.executable, "-c", "raise SystemExit(3)"]).wait_for_port(free_port())


# -- the real one -----------------------------------------------------------------------------------------------------

app = typer.Typer()
app.command()(peers)


@pytest.mark.skipif(find_program("gearmand") is None, reason="gearmand is not installed")
def test_a_real_gearmand_echoes() -> None:
    done = CliRunner().invoke(app, ["--seconds", "0.3", "--rounds", "1", "--json", "--only", "gearman_raw"])
    assert done.exit_code == 0, f"{done.output} {done.exception}"
    result = json.loads(done.stdout)
    assert result["absent"].keys() <= {"uvloop"}
    assert result["medians"]["gearman_raw_64"]["tasks"] > 64
    assert result["medians"]["gearman_raw_64"]["cpu_us_server"] > 0
