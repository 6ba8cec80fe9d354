"""What of admins' requests gets into the log, however many there are."""

from __future__ import annotations

from famulus.core.clock import NEVER_NS
from famulus.core.steward.notes import INTERVAL_NS, STRANGERS_MAX, Notes


def test_all_that_admins_did_is_written() -> None:
    notes = Notes()
    assert [notes.take(f"note {number}", 0, stranger=False) for number in range(50)] == [
        [f"note {number}"] for number in range(50)
    ]
    assert notes.next_due_ns == NEVER_NS


def test_a_flood_of_strangers_is_a_few_lines_and_a_count() -> None:
    notes = Notes()
    lines = [line for number in range(10_000) for line in notes.take(f"note {number}", number, stranger=True)]
    assert lines == ["note 0", "note 1", "note 2"]
    assert notes.take("an admin's", 0, stranger=False) == ["an admin's"]
    assert notes.next_due_ns == INTERVAL_NS
    assert notes.due(INTERVAL_NS - 1) == []
    assert notes.due(INTERVAL_NS) == [
        f"{10_000 - STRANGERS_MAX} more requests without a right name and password were refused within 10 s"
    ]
    assert notes.due(INTERVAL_NS) == []
    assert notes.take("later", INTERVAL_NS, stranger=True) == ["later"]


def test_a_flood_that_goes_on_is_told_of_once_in_an_interval() -> None:
    notes = Notes()
    seconds = 60
    lines = [
        line
        for number in range(seconds * 100)
        for line in notes.take("note", number * INTERVAL_NS // 1000, stranger=True)
    ]
    assert len(lines) <= (STRANGERS_MAX + 1) * (seconds // 10)
