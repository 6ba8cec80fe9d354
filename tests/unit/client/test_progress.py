"""The progress bar of a `map`: for whoever looks, and for nobody else."""

from __future__ import annotations

import asyncio
import io
import subprocess
import sys
from collections.abc import Iterator

import pytest

from famulus import TaskError, Worker
from famulus.errors import OutcomeError
from famulus.testing import StandIn

worker = Worker()


@worker.service("half")
def half(body: bytes) -> str:
    if int(body) % 2:
        raise ValueError("odd")
    return str(int(body) // 2)


class Screen(io.StringIO):
    def isatty(self) -> bool:
        return True


def look(monkeypatch: pytest.MonkeyPatch) -> Screen:
    screen = Screen()
    for name in ("NO_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(sys, "stderr", screen)
    return screen


def with_threads() -> list[bytes | OutcomeError]:
    with StandIn(worker) as broker, broker.client() as client:
        return list(client.map("half", ["2", "3", "4"], errors="return", progress=True))


def with_asyncio() -> list[bytes | OutcomeError]:
    async def main() -> list[bytes | OutcomeError]:
        async with StandIn(worker).async_client() as client:
            return [each async for each in client.map("half", ["2", "3", "4"], errors="return", progress=True)]

    return asyncio.run(main())


both = pytest.mark.parametrize("run", [with_threads, with_asyncio])


@both
def test_at_a_terminal_one_sees_how_far_it_is_and_how_many_failed(run: object, monkeypatch: pytest.MonkeyPatch) -> None:
    assert callable(run)
    screen = look(monkeypatch)
    first, second, third = run()
    assert (first, third) == (b"1", b"2")
    assert isinstance(second, TaskError)
    last = screen.getvalue().rpartition("half")[2]
    assert "3/3" in last
    assert "1 failed" in last


@both
def test_elsewhere_nothing_is_shown(run: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert callable(run)
    assert len(run()) == 3
    assert capsys.readouterr() == ("", "")


def test_bodies_without_a_known_number_and_one_who_stops_looking(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = look(monkeypatch)

    def numbers() -> Iterator[str]:
        yield from (str(number) for number in range(0, 1000, 2))

    with StandIn(worker) as broker, broker.client() as client:
        answers = client.map("half", numbers(), window=5, progress=True)
        assert [next(answers), next(answers)] == [b"0", b"1"]
        del answers
    assert "2/?" in screen.getvalue()
    assert screen.getvalue().rpartition("\x1b[?25")[2].startswith("h"), "the cursor is seen again"


def test_a_client_without_a_bar_loads_none_of_it() -> None:
    program = "import sys; from famulus import AsyncClient, Client; assert 'rich' not in sys.modules"
    subprocess.run([sys.executable, "-c", program], check=True)
