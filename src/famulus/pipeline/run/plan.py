"""Decides what a run has to do: which files are new, and which hours of which tables are to be made (again).

Knows no file system and no Spark: what was done and what is there comes in, a plan goes out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from famulus.journal import files
from famulus.journal.files import JournalFile
from famulus.pipeline.io import hours
from famulus.pipeline.io.place import FoundFile
from famulus.pipeline.io.source import Bad, Sound
from famulus.pipeline.run.state import ProcessedFile, RunState, day_in
from famulus.pipeline.tables.table import Table

#: The newest days of the journal are looked into each time, as brokers write to them. A day more than two, as one of
#: them may be that of a broker whose clock is wrong.
OPEN_DAYS: Final = 3


@dataclass(frozen=True, slots=True)
class Sight:
    """Some days of the journal as they are: each row is in one of the sound files."""

    sound: tuple[Sound, ...]
    bad: tuple[Bad, ...]


@dataclass(frozen=True, slots=True)
class RunPlan:
    #: Files that were not known, or have changed.
    new: tuple[Sound, ...]
    #: Of those, the ones for hours that are frozen: too late, they are not counted.
    late: tuple[Sound, ...]
    #: Compacted files with exactly the rows that were known: nothing has to be done for them.
    same: tuple[Sound, ...]
    #: Files that are gone, with nothing in their place: expired.
    expired: tuple[ProcessedFile, ...]
    frozen: frozenset[int]
    #: For each hourly table, the hours to make.
    hourly: dict[str, frozenset[int]]
    #: Of these, for each table by task, the ones to make only because the hour after them has new files.
    only_before: dict[str, frozenset[int]]
    #: The whole tables to make: all of them, or none.
    whole: tuple[str, ...]

    @property
    def is_empty(self) -> bool:
        return not self.whole and not any(self.hourly.values())


def days_to_look_into(there: Collection[str], known: Collection[str], state: RunState) -> tuple[set[str], str]:
    """Those that brokers may be writing to, those of which nothing is known, and one of the others, which is named: so
    whatever comes for a day long past is noticed, too, in as many runs as there are days."""
    chosen = {*sorted(there)[-OPEN_DAYS:], *(set(there) - set(known)), *(day_in(path) for path in state.bad)}
    others = set(there) - chosen
    turn = min((day for day in others if day > state.looked), default=min(others, default=""))
    return chosen | ({turn} if turn else set()), turn


def days_read(plan: RunPlan) -> set[str]:
    """Those that have to be known in order to make its hours."""
    made = {hour for each in plan.hourly.values() for hour in each}
    return {hours.day_of(hour + step) for hour in made for step in (-2, 2)}


def look(
    found: Iterable[FoundFile],
    state: RunState,
    check: Callable[[Sequence[FoundFile]], list[Sound | Bad]],
    suspects: Collection[str] = (),
) -> Sight:
    """Which files count. A compacted one that cannot be read must not hide the sound ones that it was made of.

    `suspects` are looked at even if they are known.
    """
    candidates = {each.path: each for each in found}
    known = {each.path: each for each in state.files if each.path not in suspects}
    verdicts: dict[str, Sound | Bad] = {}
    while True:
        counted = files.visible(map(_file, candidates))
        unknown = []
        for file in counted:
            one, done = candidates[file.path], known.get(file.path)
            if file.path in verdicts:
                continue
            if done is not None and done.bytes == one.bytes:
                verdicts[file.path] = Sound(file, done.bytes, done.rows)
            else:
                unknown.append(one)
        for verdict in check(unknown):
            verdicts[verdict.path] = verdict
            if isinstance(verdict, Bad):
                del candidates[verdict.path]
        if not any(isinstance(verdicts[each.path], Bad) for each in unknown):
            sound = (verdicts[file.path] for file in counted)
            bad = (verdict for verdict in verdicts.values() if isinstance(verdict, Bad))
            return Sight(tuple(each for each in sound if isinstance(each, Sound)), tuple(sorted(bad)))


def make(
    state: RunState,
    sight: Sight,
    tables: Sequence[Table],
    digests: Mapping[str, str],
    *,
    again: bool,
    damaged: Collection[str] = (),
) -> RunPlan:
    """`again`: everything that the journal still has, whatever was done. `damaged`: some tables may have rows of these.

    What could be read, then could not, and now can be, is new: an hour may have been made without it.
    """
    known = {each.path: each for each in state.files}
    was_bad = set(state.bad)
    unreadable = _unreadable(state, sight)
    there = {each.path for each in sight.sound} | unreadable.keys()
    vanished = [each for each in state.files if each.path not in there]
    same, covered = _compacted(sight.sound, known, vanished, was_bad)
    expired = [each for each in vanished if each.path not in covered]
    frozen = frozenset(state.frozen) | {_hour(each.path) for each in expired}
    untouched = {each.path for each in same}
    new = [
        each
        for each in sight.sound
        if each.path not in untouched
        and ((done := known.get(each.path)) is None or done.bytes != each.bytes or each.path in was_bad)
    ]
    late = [each for each in new if _hour(each.path) in frozen]
    hourly: dict[str, frozenset[int]] = {}
    only_before: dict[str, frozenset[int]] = {}
    # A file that replaced others might lack rows that these had.
    only_added = not (again or late or damaged or any(each.path in known or _is_compacted(each.path) for each in new))
    # What was read before stays in the tables: its hour is not made just because it is another one's neighbour.
    kept = [Sound(_file(path), 0, 0) for path in unreadable]
    left_out = [Sound(_file(path), 0, 0) for path in damaged if not _lying_in((path,), state.files)]
    for table in tables:
        if table.grain.value == "hourly":
            redefined = state.tables.get(table.name) != digests[table.name]
            because = [*(sight.sound if again or redefined else new), *left_out]
            touched = _hours(table, tables, because, sight.sound)
            touched -= _hours_of_files(table, tables, kept) - _hours_of_files(table, tables, because)
            # Its inputs may be made again for reasons other than new files.
            touched.update(*(hourly.get(name, ()) for name in table.inputs))
            hourly[table.name] = frozenset(touched - frozen)
            if table.by_task and only_added and not redefined:
                only_before[table.name] = _only_before(_hours_of_files(table, tables, new)) & hourly[table.name]
    redefined = bool(sight.sound) and dict(digests) != state.tables
    changed = again or bool(new) or any(hourly.values()) or redefined or state.stale is not None
    whole = tuple(table.name for table in tables if table.grain.value == "whole") if changed else ()
    return RunPlan(tuple(new), tuple(late), tuple(same), tuple(expired), frozen, hourly, only_before, whole)


def without(plan: RunPlan, unaffected: Collection[int]) -> RunPlan:
    """Leaves out hours that turned out to need nothing."""
    hourly = {
        name: wanted - (plan.only_before.get(name, frozenset()) & set(unaffected))
        for name, wanted in plan.hourly.items()
    }
    return replace(plan, hourly=hourly)


def after(
    state: RunState, sight: Sight, plan: RunPlan, digests: Mapping[str, str], *, whole: bool = True, looked: str = ""
) -> RunState:
    """What has to be remembered when the plan is done; `whole`: with its whole tables."""
    present = {each.path: ProcessedFile(each.path, each.bytes, each.rows) for each in sight.sound}
    unreadable = _unreadable(state, sight)
    return RunState(
        number=state.number + 1,
        files=tuple(sorted((unreadable | present).values(), key=lambda each: each.path)),
        frozen=tuple(sorted(plan.frozen)),
        bad=tuple(sorted({*unreadable, *(each.path for each in sight.bad)})),
        tables=dict(digests),
        stale=None if whole else _first_hour(state, plan),
        looked=looked,
    )


def first_change(state: RunState, plan: RunPlan) -> str | None:
    """The first day with rows that are not in the whole tables."""
    first = _first_hour(state, plan)
    return None if first is None else hours.day_of(first)


def _first_hour(state: RunState, plan: RunPlan) -> int | None:
    made = (hour for each in plan.hourly.values() for hour in each)
    return min([*made, *([] if state.stale is None else [state.stale])], default=None)


def parts_of(rows: int, rows_max: int) -> int:
    """Into how many files an hour is cut: parts of equal length, whole minutes each."""
    return next((parts for parts in (1, 2, 3, 4, 5, 6, 10, 12, 15, 20, 30) if rows <= parts * rows_max), 60)


def roots(table: Table, tables: Sequence[Table]) -> set[str]:
    """The tables of the journal that it is made of, directly or through others."""
    outputs = {each.name: each for each in tables}
    found: set[str] = set()
    for name in table.inputs:
        found |= roots(outputs[name], tables) if name in outputs else {name}
    return found


def _hours(table: Table, tables: Sequence[Table], files_of: Iterable[Sound], sound: Iterable[Sound]) -> set[int]:
    """Those that have to be made because of these files, which are among the sound ones."""
    touched = _hours_of_files(table, tables, files_of)
    if table.by_task:
        further = {hour + 2 for hour in touched} & _hours_of_files(table, tables, sound)
        return hours.with_neighbours(touched) | further
    return hours.with_neighbours(touched) if table.neighbours else touched


def _hours_of_files(table: Table, tables: Sequence[Table], files_of: Iterable[Sound]) -> set[int]:
    wanted = roots(table, tables)
    return {_hour(each.path) for each in files_of if each.file.table in wanted}


def _only_before(touched: set[int]) -> frozenset[int]:
    after = {hour + step for hour in touched for step in (0, 1, 2)}
    return frozenset({hour - 1 for hour in touched} - after)


def to_read(table: Table, wanted: Collection[int], unaffected: Collection[int]) -> frozenset[int]:
    """The hours to look at in order to make these: what an unaffected hour left open needs no explanation."""
    read = hours.with_neighbours(wanted) if table.neighbours else set(wanted)
    if table.by_task:
        read |= {hour - 2 for hour in wanted if hour - 1 not in wanted and hour - 1 not in unaffected}
    return frozenset(read)


def _unreadable(state: RunState, sight: Sight) -> dict[str, ProcessedFile]:
    """Known files that cannot be read now, or that became a part of such a file: their rows are in the tables."""
    sound = {each.path for each in sight.sound}
    found = _lying_in((each.path for each in sight.bad), state.files)
    return {path: done for path, done in found.items() if path not in sound}


def _lying_in(paths: Iterable[str], done: Iterable[ProcessedFile]) -> dict[str, ProcessedFile]:
    """Those that are one of these files, or were compacted into one of them."""
    parts = _by_origin(done)
    return {each.path: each for one in map(_file, paths) for file, each in parts[one.origin] if _has(one, file)}


def _compacted(
    sound: Iterable[Sound],
    known: Mapping[str, ProcessedFile],
    vanished: Iterable[ProcessedFile],
    was_bad: Collection[str],
) -> tuple[list[Sound], set[str]]:
    """Files with exactly the rows of files that were known, and the paths of all files that others now cover."""
    by_origin = _by_origin(vanished)
    same: list[Sound] = []
    covered: set[str] = set()
    for one in sound:
        parts = [done for file, done in by_origin.get(one.file.origin, ()) if _has(one.file, file)]
        covered.update(part.path for part in parts)
        # Rows are only ever added, so if there are as many as before, they are the same. But an hour may lack what
        # could not be read.
        is_doubtful = one.path in was_bad or any(part.path in was_bad for part in parts)
        if parts and one.path not in known and not is_doubtful and sum(part.rows for part in parts) == one.rows:
            same.append(one)
    return same, covered


def _by_origin(done: Iterable[ProcessedFile]) -> defaultdict[tuple[str, ...], list[tuple[JournalFile, ProcessedFile]]]:
    found: defaultdict[tuple[str, ...], list[tuple[JournalFile, ProcessedFile]]] = defaultdict(list)
    for each in done:
        file = _file(each.path)
        found[file.origin].append((file, each))
    return found


def _has(whole: JournalFile, part: JournalFile) -> bool:
    """For files of one origin: whether `whole` was made from `part`, or is `part`."""
    return whole.first <= part.first and part.last <= whole.last


def _file(path: str) -> JournalFile:
    """All that was found, or is known, has a name of ours."""
    file = files.parse(path)
    assert file is not None, path
    return file


def _hour(path: str) -> int:
    file = _file(path)
    return hours.number_of(file.date, file.hour)


def admitted(found: Iterable[FoundFile], state: RunState, new_max: int | None) -> tuple[list[FoundFile], bool]:
    """All that are known, and of the others so many, those of the oldest hours first; and whether there are more."""
    known = {*state.bad, *(each.path for each in state.files)}
    always: list[FoundFile] = []
    new: list[FoundFile] = []
    for each in found:
        (always if each.path in known or _is_compacted(each.path) else new).append(each)
    new.sort(key=lambda each: (_hour(each.path), each.path))
    return always + new[:new_max], new_max is not None and len(new) > new_max


def _is_compacted(path: str) -> bool:
    """Such a file always counts: without it, the known files that it replaced would seem to be expired."""
    file = _file(path)
    return file.last != file.first
