"""A status on a terminal: in words, in columns, and whatever names are in it."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from tests.unit.web.status.conftest import NS_PER_S, dispatcher, peer, service, steward, supervisor, worker

from famulus.cli.status import status, words
from famulus.cli.status.http_port import HttpPort, base_of
from famulus.cli.status.top import TopScreen
from famulus.errors import NobodyAnswers
from famulus.web.status.board import Board
from famulus.web.status.views import Status
from famulus.wire import status as snapshots


def told(*told_of: snapshots.Snapshot) -> Status:
    board = Board()
    for each in told_of:
        board.take(each, NS_PER_S, 1000)
    return board.status(NS_PER_S, 1000)


def shown(what: object) -> str:
    console = Console(file=io.StringIO(), width=120, force_terminal=True, color_system=None)
    console.print(what)
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_screen_says_who_how_and_how_much() -> None:
    text = shown(
        words.screen(
            told(
                supervisor(network=True),
                dispatcher(1, services=(service(ok=5, backlog=7),), workers=(worker(),), counters={"ok": 1234}),
                steward(peer("b2"), peer("b3", alive=False)),
                snapshots.Config(3, "d3", b"{}", b"[]", 2),
            )
        )
    )
    for phrase in (
        "broker b1",
        "active",
        "ok 1,234",
        "b3",
        "gone",
        "2 in conflict: an admin has to choose",
        "router-1",
        "echo",
    ):
        assert phrase in text


def test_the_journal_is_on_the_screen() -> None:
    journal = snapshots.Journal(rows=12345, files=3, bytes=5_000_000, lost=7, open_rows=20)
    text = shown(words.screen(told(supervisor(journal=journal))))
    assert "journal  12,345 rows in 3 files, 4.8 MiB; 20 in none yet; 7 rows lost" in text
    assert "journal  off" in shown(words.screen(told(supervisor())))


def test_a_broker_that_is_not_ready_says_why() -> None:
    assert "not ready: the dispatcher is silent" in shown(words.screen(told(supervisor())))


def test_names_cannot_steer_a_terminal() -> None:
    evil = "a\x1b[31m\x07[bold]b\u202e"
    text = shown(
        words.screen(
            told(
                supervisor(),
                dispatcher(
                    1,
                    services=(service(evil),),
                    workers=(worker(evil, services=(evil,)),),
                    errors=(snapshots.ErrorWorker(evil, 4, 8),),
                ),
            )
        )
    )
    assert "[bold]b" in text, "and no markup either"
    assert not set(text) & {"\x1b", "\x07", "\u202e"}


@pytest.mark.parametrize(("given", "whole"), [("b1:7104", "http://b1:7104"), ("https://b1/", "https://b1")])
def test_addresses_are_made_whole(given: str, whole: str) -> None:
    assert base_of(given) == whole


def test_keys_sort_and_quit() -> None:
    screen = TopScreen()
    screen.status = told(dispatcher(1, services=(service("b", busy=1), service("a"), service("c", backlog=3))))
    orders = {}
    for key in "nbw":
        screen.press(key)
        orders[key] = "".join(each.name for each in screen.sorted(screen.status.services))
    assert orders == {"n": "abc", "b": "bac", "w": "cab"}
    screen.press("v")
    assert "q quit" in shown(screen.render(24))
    screen.press("q")
    assert screen.done


def test_watching_goes_on_when_the_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = []

    def ask(_: HttpPort) -> Status:
        rounds.append(1)
        if len(rounds) == 1:
            raise NobodyAnswers("nobody answers")
        if len(rounds) == 3:
            raise KeyboardInterrupt
        return told(supervisor())

    monkeypatch.setattr(HttpPort, "ask_status", ask)
    monkeypatch.setattr("time.sleep", lambda _: None)
    with pytest.raises(KeyboardInterrupt):
        status.status(watch=True)
    assert len(rounds) == 3
