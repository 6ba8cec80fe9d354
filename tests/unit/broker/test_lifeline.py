"""The line between a supervisor and a child: settings, commands, reports, and what its end means."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import msgspec
import pytest

from famulus.broker import lifeline as lifelines
from famulus.broker.lifeline import Lifeline


class _File:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def fileno(self) -> int:
        return self._descriptor


class Ends:
    """The supervisor's ends of both pipes."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._theirs, self.down = os.pipe()
        self.up, self._their_up = os.pipe()
        self._open = {self._theirs, self.down, self.up, self._their_up}
        # Not sys.stdin itself: that is pytest's.
        monkeypatch.setattr(
            lifelines, "sys", SimpleNamespace(stdin=_File(self._theirs), stdout=_File(self._their_up), exit=sys.exit)
        )
        self.lifeline = Lifeline()

    def close(self, *descriptors: int) -> None:
        for descriptor in descriptors or tuple(self._open):
            self._open.discard(descriptor)
            os.close(descriptor)


@pytest.fixture
def ends(monkeypatch: pytest.MonkeyPatch) -> Iterator[Ends]:
    ends = Ends(monkeypatch)
    yield ends
    ends.close()


def test_settings_come_first_then_commands_in_any_pieces(ends: Ends) -> None:
    os.write(ends.down, b'{"settings":1}\n{"drain')
    assert ends.lifeline.settings() == {"settings": 1}
    assert ends.lifeline.commands() == []
    os.write(ends.down, b'_ms":5}\n{"a":1}\n{"b"')
    assert ends.lifeline.commands() == [{"drain_ms": 5}, {"a": 1}]
    assert ends.lifeline.commands() == []


def test_its_end_means_that_the_supervisor_is_gone(ends: Ends) -> None:
    os.write(ends.down, b"{}\n")
    ends.lifeline.settings()
    ends.close(ends.down)
    assert ends.lifeline.commands() is None


def test_an_end_before_the_settings_ends_the_child(ends: Ends) -> None:
    ends.close(ends.down)
    with pytest.raises(SystemExit) as caught:
        ends.lifeline.settings()
    assert caught.value.code == 0


def test_reports_are_lines(ends: Ends) -> None:
    ends.lifeline.report(ready=True, port=7)
    assert os.read(ends.up, 4096) == b'{"ready":true,"port":7}\n'


def test_a_supervisor_that_does_not_read_stops_nobody(ends: Ends) -> None:
    for number in range(100_000):
        ends.lifeline.report(number=number)
    held = b""
    os.set_blocking(ends.up, False)
    while True:
        try:
            held += os.read(ends.up, 1 << 20)
        except BlockingIOError:
            break
    # What did not fit is dropped in whole lines.
    numbers = [msgspec.json.decode(line)["number"] for line in held.splitlines()]
    assert numbers == list(range(len(numbers)))
    assert len(numbers) < 100_000


def test_a_report_to_nobody_ends_the_child(ends: Ends) -> None:
    ends.close(ends.up)
    with pytest.raises(SystemExit):
        ends.lifeline.report(alive=True)
