"""Strangers who ask for what only admins may: they keep no admin out, and do not fill the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import zmq
from tests.processes.conftest import Raw, wait_until
from tests.processes.networks import PASSWORD, Member, Network
from tests.processes.secured import Secured

from famulus.admin.connection import AdminConnection
from famulus.admin.secret import Secret
from famulus.core.steward.notes import STRANGERS_MAX
from famulus.errors import FamulusError
from famulus.journal.listing import last_rows
from famulus.journal.reading import JournalReader

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


def asked(secured: Secured, name: str, password: str) -> str:
    """What an admin with this pass is told, who does not say it again to see."""
    with AdminConnection(pass_file=secured.pass_of(name)) as connection:
        try:
            connection.ask("admin", Secret(password), "show", {"prefix": "family/"})
        except FamulusError as error:
            return str(error)
    return "shown"


def test_who_has_a_pass_cannot_guess_without_a_wait_where_an_admin_has_been_heard(tmp_path: Path) -> None:
    settings = tmp_path / "broker.toml"
    settings.write_text("journal_roll_s = 1\n")
    flags = ("--config", str(settings), "--journal-folder", str(tmp_path / "journal"))
    secured = Secured(tmp_path, flags=flags)
    try:
        assert asked(secured, "desk", PASSWORD) == "shown"
        wait_until(lambda: "too many wrong passwords" in asked(secured, "shop", "a guess"), 20, "a wait")
        # Neither with its right password, nor because of anybody else, is one refused who was heard before.
        assert asked(secured, "desk", "a guess").endswith("wrong name or password")
        assert asked(secured, "desk", PASSWORD) == "shown"
        assert "too many wrong passwords" in asked(secured, "shop", PASSWORD)
        wait_until(lambda: {"desk", "shop"} <= _refused_admins(tmp_path / "journal"), 30, "whom it refused")
    finally:
        secured.close()


def _refused_admins(journal: Path) -> set[str]:
    rows = last_rows(JournalReader(journal), "access", 1000)
    return {row["principal"] for row in rows if row["wanted"] == "manage" and row["address"] == "127.0.0.1"}
