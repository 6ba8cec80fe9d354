"""Strangers who ask for what only admins may: they keep no admin out, and do not fill the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from tests.processes.conftest import Raw, wait_until
from tests.processes.networks import Member, Network

from famulus.core.steward.notes import STRANGERS_MAX

REFUSED = "refused, not_allowed"


@pytest.fixture
def member(tmp_path: Path) -> Iterator[Member]:
    network = Network(tmp_path)
    yield network.found("b1")
    network.close()


@contextmanager
def strangers(member: Member, count: int, **body: str) -> Iterator[None]:
    """So many clients, each of which has asked a few times, and does not read what it is told."""
    clients = [Raw(zmq.Context.instance(), zmq.DEALER, member.frontend) for _ in range(count)]
    try:
        for client in clients:
            for _ in range(8):
                client.tell("MANAGE", envelope=b"e", body=json.dumps(body).encode(), username="admin", command="show")
        yield
    finally:
        for client in clients:
            client.socket.close(0)


def refusals(member: Member) -> list[str]:
    return [line for line in list(member.broker.lines) if REFUSED in line]


def test_without_passwords_they_keep_no_admin_out_and_do_not_fill_the_log(member: Member) -> None:
    for _ in range(3):
        with strangers(member, 20):
            assert member.admin.told("show")["broker"] == "b1"
    wait_until(lambda: bool(refusals(member)), 20, "the first one in the log")
    wait_until(lambda: any(" more requests without " in line for line in list(member.broker.lines)), 20, "the others")
    assert len(refusals(member)) <= 2 * STRANGERS_MAX


def test_wrong_passwords_keep_no_admin_out_where_it_was_heard_before(member: Member) -> None:
    """Also after a restart, when the strangers are the first to ask."""
    with strangers(member, 1, password="a guess"):
        wait_until(lambda: bool(refusals(member)), 20, "a guess that was looked at")
        wait_until(
            lambda: "too many wrong passwords" in member.admin.ask("show")[0], 20, "that nobody is heard from there"
        )
    wait_until(lambda: not member.admin.ask("show")[0], 20, "the end of the wait")
    for _ in range(2):
        with strangers(member, 2, password="a guess"):
            wait_until(lambda: bool(refusals(member)), 20, "a guess that was looked at")
            assert member.admin.told("show")["broker"] == "b1"
        member.kill()
        member.start()
