"""What a run decides to do, without files and without Spark."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.pipeline.jobs.conftest import EIGHT, HOUR_US

from famulus.journal.files import JournalFile, hour_of
from famulus.pipeline.io.place import FoundFile
from famulus.pipeline.io.source import Bad, Sound
from famulus.pipeline.run import plan
from famulus.pipeline.run.state import ProcessedFile, RunState
from famulus.pipeline.tables.table import Grain, Table

HOURLY = Table("hourly", Grain.HOURLY, ("tasks",), lambda tasks: tasks)
WIDE = Table("wide", Grain.HOURLY, ("tasks", "workers"), lambda tasks, workers: tasks, neighbours=True)
WHOLE = Table("whole", Grain.WHOLE, ("hourly",), lambda hourly: hourly)
TABLES = (HOURLY, WIDE, WHOLE)
DIGESTS = {table.name: "d" for table in TABLES}
EIGHT_O_CLOCK = EIGHT // HOUR_US


def sound(hour: int, first: int, last: int | None = None, *, rows: int = 10, table: str = "tasks") -> Sound:
    file = JournalFile(table, *hour_of(EIGHT + hour * HOUR_US), "b1", "ab", first, first if last is None else last)
    return Sound(file, 100 * rows, rows)


def known(*files: Sound, frozen: tuple[int, ...] = ()) -> RunState:
    done = tuple(ProcessedFile(each.path, each.bytes, each.rows) for each in files)
    return RunState(number=1, files=done, frozen=frozen, tables=DIGESTS)


def make(state: RunState, *files: Sound, bad: tuple[Bad, ...] = ()) -> plan.RunPlan:
    return plan.make(state, plan.Sight(files, bad), TABLES, DIGESTS, again=False)


def relative(planned: plan.RunPlan, name: str) -> list[int]:
    return sorted(hour - EIGHT_O_CLOCK for hour in planned.hourly[name])


def test_a_new_file_touches_the_tables_that_are_made_of_it() -> None:
    planned = make(known(sound(0, 1)), sound(0, 1), sound(5, 1), sound(9, 1, table="workers"))
    assert relative(planned, "hourly") == [5]
    assert relative(planned, "wide") == [4, 5, 6, 8, 9, 10]
    assert planned.whole == ("whole",)


def test_hours_of_a_table_of_hours_are_those_of_what_it_is_made_of() -> None:
    further = Table("further", Grain.HOURLY, ("wide",), lambda wide: wide)
    tables = (HOURLY, WIDE, further)
    digests = {table.name: table.name for table in tables}
    files = (sound(0, 1), sound(5, 1), sound(9, 1, table="workers"))
    state = RunState(number=1, files=known(files[0]).files, tables=digests)
    planned = plan.make(state, plan.Sight(files, ()), tables, digests, again=False)
    assert relative(planned, "further") == relative(planned, "wide") == [4, 5, 6, 8, 9, 10]
    assert plan.roots(further, tables) == {"tasks", "workers"}
    state = RunState(number=1, files=known(*files).files, tables=digests | {"wide": "another"})
    planned = plan.make(state, plan.Sight(files, ()), tables, digests, again=False)
    assert relative(planned, "further") == relative(planned, "wide") == [-1, 0, 1, 4, 5, 6, 8, 9, 10]
    assert relative(planned, "hourly") == []


def test_nothing_new_is_nothing_to_do() -> None:
    assert make(known(sound(0, 1)), sound(0, 1)).is_empty


def test_a_file_of_another_size_is_another_file() -> None:
    assert relative(make(known(sound(0, 1)), sound(0, 1, rows=11)), "hourly") == [0]


@pytest.mark.parametrize(("rows", "again"), [(20, []), (21, [0])])
def test_a_compacted_file_is_the_same_if_it_has_as_many_rows(rows: int, again: list[int]) -> None:
    planned = make(known(sound(0, 1), sound(0, 2)), sound(0, 1, 2, rows=rows))
    assert relative(planned, "hourly") == again
    assert (len(planned.same), planned.expired) == (0 if again else 1, ())


def test_a_file_that_is_gone_freezes_its_hour() -> None:
    planned = make(known(sound(0, 1), sound(0, 2)), sound(0, 2))
    assert (planned.is_empty, planned.frozen, len(planned.expired)) == (True, frozenset({EIGHT_O_CLOCK}), 1)
    planned = make(known(sound(1, 1), frozen=(EIGHT_O_CLOCK,)), sound(1, 1), sound(0, 3))
    assert (relative(planned, "hourly"), relative(planned, "wide"), len(planned.late)) == ([], [-1, 1], 1)


def test_a_file_that_was_read_and_cannot_be_read_now_is_not_gone() -> None:
    was = sound(0, 1)
    bad = Bad(was.path, "truncated", "cut off")
    planned = make(known(was), bad=(bad,))
    assert (planned.is_empty, planned.expired) == (True, ())
    assert plan.after(known(was), plan.Sight((), (bad,)), planned, DIGESTS).files == known(was).files


def test_a_table_with_other_columns_is_made_for_all_hours() -> None:
    state = known(sound(0, 1), sound(1, 1))
    digests = DIGESTS | {"hourly": "other"}
    planned = plan.make(state, plan.Sight((sound(0, 1), sound(1, 1)), ()), TABLES, digests, again=False)
    assert (relative(planned, "hourly"), relative(planned, "wide")) == ([0, 1], [])


def test_a_file_that_can_be_read_again_counts_as_new() -> None:
    was = sound(0, 1)
    state = replace(known(was), bad=(was.path,))
    assert make(state, was).new == (was,)
    asked: list[str] = []

    def check(unknown: Sequence[FoundFile]) -> list[Sound | Bad]:
        asked.extend(each.path for each in unknown)
        return [was]

    plan.look([FoundFile(was.path, was.bytes)], state, check, state.bad)
    assert asked == [was.path], "what was bad is looked at again, also if it is as long as it was"


def test_what_was_compacted_while_it_could_not_be_read_is_read() -> None:
    """The hour may have been made without it."""
    parts, whole = (sound(0, 1), sound(0, 2)), sound(0, 1, 2, rows=20)
    assert make(known(*parts), whole).same == (whole,)
    for bad in (parts[0].path, whole.path):
        planned = make(replace(known(*parts), bad=(bad,)), whole)
        assert (planned.same, planned.new, planned.expired) == ((), (whole,), ())


def test_an_hour_is_not_frozen_since_a_compacted_file_cannot_be_read() -> None:
    parts, whole = (sound(0, 1), sound(0, 2)), sound(0, 1, 3, rows=30)
    sight = plan.Sight((), (Bad(whole.path, "damaged", "it is damaged"),))
    planned = plan.make(known(*parts), sight, TABLES, DIGESTS, again=False)
    assert (planned.expired, planned.frozen, planned.is_empty) == ((), frozenset(), True)
    state = plan.after(known(*parts), sight, planned, DIGESTS)
    assert state.files == known(*parts).files
    later = make(state, whole)
    assert (later.new, later.late, relative(later, "hourly")) == ((whole,), (), [0])
    # Or somebody brings back what it was put together from, and takes it away.
    assert make(state, *parts).new == parts
    both = plan.Sight(parts, sight.bad)
    state = plan.after(state, both, plan.make(state, both, TABLES, DIGESTS, again=False), DIGESTS)
    assert plan.make(state, both, TABLES, DIGESTS, again=False).is_empty


def test_the_hours_of_a_file_that_turned_out_to_be_damaged_are_made_without_it() -> None:
    """Some tables may have been made with it before."""
    sight = plan.Sight((sound(5, 1),), (Bad(sound(5, 2).path, "damaged", "it is damaged"),))
    state = known(sound(5, 1))
    assert plan.make(state, sight, TABLES, DIGESTS, again=False).is_empty
    planned = plan.make(state, sight, TABLES, DIGESTS, again=False, damaged={sound(5, 2).path})
    assert (relative(planned, "hourly"), relative(planned, "wide")) == ([5], [4, 5, 6])
    assert planned.whole == ("whole",)
    # What was known before stays in the tables, also if it was put together with others since.
    for state, path in (
        (known(sound(5, 1), sound(5, 2)), sound(5, 2).path),
        (known(sound(5, 1), sound(5, 2), sound(5, 3)), sound(5, 2, 3).path),
    ):
        sight = plan.Sight((sound(5, 1),), (Bad(path, "damaged", "it is damaged"),))
        assert plan.make(state, sight, TABLES, DIGESTS, again=False, damaged={path}).is_empty


def test_an_hour_with_rows_that_cannot_be_read_any_more_is_not_made_for_its_neighbours() -> None:
    """All tables keep them, until there is something new in that very hour."""
    state = known(sound(5, 1), sound(5, 2))
    bad = (Bad(sound(5, 2).path, "damaged", "it is damaged"),)
    planned = make(state, sound(5, 1), sound(6, 1), bad=bad)
    assert (relative(planned, "hourly"), relative(planned, "wide")) == ([6], [6, 7])
    planned = make(state, sound(5, 1), sound(5, 3), bad=bad)
    assert (relative(planned, "hourly"), relative(planned, "wide")) == ([5], [4, 5, 6])


def test_a_bad_compacted_file_does_not_hide_what_it_was_made_of() -> None:
    files = (sound(0, 1), sound(0, 2), sound(0, 1, 2, rows=20))
    verdicts: dict[str, Sound | Bad] = {each.path: each for each in files}
    verdicts[files[2].path] = Bad(files[2].path, "truncated", "cut off")
    found = [FoundFile(each.path, each.bytes) for each in files]
    sight = plan.look(found, RunState(), lambda unknown: [verdicts[each.path] for each in unknown])
    assert sight.sound == files[:2]
    assert [each.kind for each in sight.bad] == ["truncated"]


def test_so_many_new_files_and_those_of_the_oldest_hours_first() -> None:
    state = RunState(files=(ProcessedFile(sound(5, 1).path, 1, 1),), bad=(sound(5, 2).path,))
    files = (sound(5, 1), sound(5, 2), sound(2, 3), sound(1, 4), sound(3, 3), sound(4, 5, 6))
    found = [FoundFile(each.path, 1) for each in files]
    taken, more = plan.admitted(found, state, 2)
    # What is known always counts, and what is compacted may be known by its parts.
    assert ([found.index(each) for each in taken], more) == ([0, 1, 5, 3, 2], True)
    assert plan.admitted(found, state, 3)[1] is False
    assert set(plan.admitted(found, state, None)[0]) == set(found)


def test_days_that_are_complete_are_looked_into_one_by_one() -> None:
    days = {f"2026-11-{day:02d}" for day in range(1, 11)}
    state, open_days = RunState(), {"2026-11-08", "2026-11-09", "2026-11-10"}
    turns = []
    for _ in range(8):
        chosen, turn = plan.days_to_look_into(days, days, state)
        assert chosen == open_days | {turn}
        turns.append(int(turn[-2:]))
        state = replace(state, looked=turn)
    assert turns == [1, 2, 3, 4, 5, 6, 7, 1]
    # What nobody knows, and what could not be read.
    state = RunState(bad=("tasks/date=2026-11-02/hour=08/b1-ab-00000001.parquet",), looked="2026-11-04")
    chosen, turn = plan.days_to_look_into(days, days - {"2026-11-05"}, state)
    assert (chosen, turn) == (open_days | {"2026-11-02", "2026-11-05", "2026-11-06"}, "2026-11-06")
    assert plan.days_to_look_into({"2026-11-10"}, (), RunState()) == ({"2026-11-10"}, "")


def test_the_days_beside_an_hour_have_to_be_known() -> None:
    assert plan.days_read(make(known(), sound(0, 1))) == {"2026-11-15"}
    assert plan.days_read(make(known(), sound(15, 1))) == {"2026-11-15", "2026-11-16"}


def test_what_whole_tables_do_not_know_yet_is_remembered() -> None:
    files = (sound(40, 1), sound(0, 2))
    planned = make(known(), *files[:1])
    after = plan.after(known(), plan.Sight(files[:1], ()), planned, DIGESTS, whole=False)
    assert after.stale == EIGHT_O_CLOCK + 39
    assert plan.first_change(known(), planned) == "2026-11-16"
    # A run that has nothing else to do makes them.
    assert make(after, *files[:1]).whole == ("whole",)
    planned = make(after, *files)
    assert plan.first_change(after, planned) == "2026-11-15"
    assert plan.after(after, plan.Sight(files, ()), planned, DIGESTS, whole=False).stale == EIGHT_O_CLOCK - 1
    assert plan.after(after, plan.Sight(files, ()), planned, DIGESTS).stale is None


@pytest.mark.parametrize(("rows", "parts"), [(0, 1), (10, 1), (11, 2), (55, 6), (61, 10), (601, 60), (10**9, 60)])
def test_parts_are_whole_minutes(rows: int, parts: int) -> None:
    assert plan.parts_of(rows, 10) == parts


def test_an_hour_that_is_made_only_for_the_one_after_it_may_be_left_out() -> None:
    by_task = Table("by_task", Grain.HOURLY, ("tasks",), lambda tasks: tasks, neighbours=True, by_task=True)
    digests = {"by_task": "d"}
    files = (sound(0, 1), sound(1, 1), sound(2, 1), sound(4, 1))
    old = RunState(number=1, files=known(*files).files, tables=digests)

    def planned(*new: Sound, state: RunState = old, again: bool = False) -> plan.RunPlan:
        return plan.make(state, plan.Sight((*files, *new), ()), (by_task,), digests, again=again)

    def before(made: plan.RunPlan) -> list[int]:
        return sorted(hour - EIGHT_O_CLOCK for hour in made.only_before.get("by_task", ()))

    assert before(planned(sound(2, 2))) == [1]
    # One that has an hour with news before it, too, depends on that as well.
    assert before(planned(sound(2, 2), sound(4, 2))) == [1]
    assert before(planned(sound(1, 2), sound(2, 2))) == [0]
    assert before(planned(sound(2, 2), again=True)) == []
    assert before(planned(sound(2, 2), state=RunState(number=1, files=old.files, tables={"by_task": "another"}))) == []
    assert relative(planned(sound(2, 2)), "by_task") == [1, 2, 3, 4]
    assert relative(planned(sound(1, 2)), "by_task") == [0, 1, 2]
    left_out = plan.without(planned(sound(2, 2)), {EIGHT_O_CLOCK + 1, EIGHT_O_CLOCK + 3})
    assert relative(left_out, "by_task") == [2, 3, 4]


def test_what_was_open_in_the_hour_before_is_explained_by_its_neighbours() -> None:
    plain = Table("plain", Grain.HOURLY, ("tasks",), lambda tasks: tasks)
    by_task = Table("by_task", Grain.HOURLY, ("tasks",), lambda tasks: tasks, neighbours=True, by_task=True)
    assert plan.to_read(plain, {5}, ()) == {5}
    assert plan.to_read(WIDE, {5}, ()) == {4, 5, 6}
    assert plan.to_read(by_task, {5, 6, 9}, ()) == {3, 4, 5, 6, 7, 8, 9, 10}
    # In an unaffected hour nothing was left open.
    assert plan.to_read(by_task, {5, 6, 9}, {4}) == {4, 5, 6, 7, 8, 9, 10}
