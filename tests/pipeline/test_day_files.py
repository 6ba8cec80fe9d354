"""Which file of a day each hour goes to: decided without files, and tried with a folder that is a dictionary."""

from __future__ import annotations

import random

import pytest

from famulus.pipeline.io.day_files import DayFile, FileWork, NewHour, arrange, parse

LIMIT = 100
#: Rows of a file, each with its hour and the time at which its hour was made.
Folder = dict[str, list[tuple[int, int, int]]]


def file(name: str, size: int, first: int | None = None, last: int | None = None) -> DayFile:
    of = parse(name)
    assert of is not None
    return DayFile(*of, size, None if first is None or last is None else (first, last))


def whole(hour: int, size: int) -> dict[int, NewHour]:
    return {hour: NewHour(hour, {0: size} if size else {})}


def names(work: list[FileWork]) -> list[str]:
    return [each.name for each in work]


def test_hours_share_a_file_while_it_is_small() -> None:
    (only,) = arrange([], whole(8, 40) | whole(9, 40), LIMIT)
    assert (only.name, only.added) == ("part-0800.parquet", ((8, 0), (9, 0)))
    there = [file("part-0800.parquet", 80, 8, 9)]
    (only,) = arrange(there, whole(10, 20), LIMIT)
    assert (only.name, only.is_there, only.is_all_new) == ("part-0800.parquet", True, False)
    assert names(arrange(there, whole(10, 21), LIMIT)) == ["part-1000.parquet"]


def test_an_hour_stays_in_its_file_however_much_it_grows() -> None:
    """To another one it could not be moved in one step."""
    there = [file("part-0800.parquet", 80, 8, 9)]
    assert names(arrange(there, whole(9, 1000), LIMIT)) == ["part-0800.parquet"]
    # What comes late for an hour that had no rows is added to those before it.
    assert names(arrange([file("part-0800.parquet", 8, 8, 9)], whole(5, 1), LIMIT)) == ["part-0500.parquet"]
    assert names(arrange([file("part-0400.parquet", 8, 4, 9)], whole(5, 1), LIMIT)) == ["part-0400.parquet"]


def test_an_hour_without_rows_leaves_its_file() -> None:
    there = [file("part-0800.parquet", 80, 8, 9)]
    (only,) = arrange(there, whole(9, 0), LIMIT)
    assert (only.is_gone, only.is_all_new) == (False, False)
    (only,) = arrange(there, whole(8, 0) | whole(9, 0), LIMIT)
    assert only.is_gone
    assert arrange(there, whole(10, 0), LIMIT) == []


@pytest.mark.parametrize("seed", range(10))
def test_nothing_is_twice_at_any_moment_and_all_is_there_in_the_end(seed: int) -> None:
    """Hours of all sizes, cut into more and more parts, in any order, again and again."""
    chance = random.Random(seed)
    folder: Folder = {}
    rows: dict[int, dict[int, int]] = {}
    parts = dict.fromkeys(range(24), 1)
    for version in range(12):
        made = {}
        for hour in chance.sample(range(24), chance.choice((1, 1, 1, 2, 24))):
            parts[hour] = min(60, parts[hour] * chance.choice((1, 1, 1, 1, 1, 2, 3)))
            size = chance.choice((0, 1, 10, 60, 200))
            made[hour] = NewHour(hour, {part: size for part in range(parts[hour]) if size}, parts[hour])
            rows[hour] = dict(made[hour].bytes)
        is_added = {hour for hour in made if len(made[hour].bytes) > 1 or not any(_hours_in(folder, hour))}
        before = {hour: _hours_in(folder, hour) for hour in range(24)}
        for work in arrange([_described(name, folder) for name in folder], made, LIMIT):
            _do(work, folder, made, version)
            for hour in range(24):
                found = [(part, at) for each in folder.values() for of, part, at in each if of == hour]
                if len({at for _, at in found}) > 1:
                    # Parts of both: only where there are several files, and of no part twice.
                    assert hour in made
                    assert len({part for part, _ in found}) == len(found) or made[hour].parts > 1
                if hour not in made:
                    assert _hours_in(folder, hour) == before[hour]
                elif hour not in is_added and rows[hour]:
                    assert found, "it is never away"
        for hour, sizes in rows.items():
            assert sorted(part for part, _ in _hours_in(folder, hour)) == sorted(sizes)


def _hours_in(folder: Folder, hour: int) -> list[tuple[int, int]]:
    return sorted((part, at) for each in folder.values() for of, part, at in each if of == hour)


def _described(name: str, folder: Folder) -> DayFile:
    found = [hour for hour, _, _ in folder[name]]
    return file(name, 10 * len(found), min(found, default=None), max(found, default=None))


def _do(work: FileWork, folder: Folder, made: dict[int, NewHour], version: int) -> None:
    assert work.is_there == (work.name in folder)
    kept = [] if work.is_all_new else [row for row in folder[work.name] if row[0] not in made]
    assert not work.is_all_new or all(row[0] in made for row in folder.get(work.name, []))
    folder[work.name] = kept + [(hour, part, version) for hour, part in work.added]
    if work.is_gone:
        del folder[work.name]
