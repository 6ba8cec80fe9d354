"""Makes the tables: finds what is new, makes the hours that it touches, then the whole tables, and notes what was done.

A run that dies at any point is done again by the next one, with the same result: what is staged is thrown away, what
is published is replaced by the same, and what was done is noted last.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

from msgspec.structs import replace
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from famulus.errors import FileDamaged, FileGone
from famulus.journal import schema
from famulus.pipeline.io import hours, older, source
from famulus.pipeline.io.place import Place
from famulus.pipeline.io.source import Sound
from famulus.pipeline.io.store import ROWS_PER_FILE, Made, Store, digest_of, is_cut
from famulus.pipeline.run import plan, state
from famulus.pipeline.run.lock import Lock, locked
from famulus.pipeline.run.plan import RunPlan, Sight
from famulus.pipeline.run.progress import ProgressStep, RunSummary, TableDone, Tell, silent
from famulus.pipeline.run.schedule import Schedule, make_all
from famulus.pipeline.run.state import RunState
from famulus.pipeline.run.unaffected import unaffected_hours
from famulus.pipeline.tables import ALL, Grain, Table
from famulus.pipeline.tables.memo import release_cached
from famulus.pipeline.tables.scale import (
    COUNTED_ROWS,
    MEDIUM_ROWS,
    SMALL_BYTES,
    Scale,
    scale_for,
    session_for,
    threads_for,
)

#: A broker may compact files while they are read. Then the run looks again.
TRIES: Final = 3


def run(
    spark: SparkSession,
    journal: Place,
    tables: Place,
    *,
    registry: Sequence[Table] | None = None,
    again: bool = False,
    late: bool = False,
    whole: bool = True,
    tell: Tell = silent,
    rows_per_file: int = ROWS_PER_FILE,
    files_max: int | None = None,
) -> RunSummary:
    """`again`: make everything that the journal has, known or not. `late`: look into all days for files that are new.
    `whole`: whole tables, too, unless there are more new files than `files_max`; otherwise they are left to a later
    run."""
    wanted = ALL if registry is None else registry
    damaged: set[str] = set()
    missed = 0
    with locked(tables) as lock:
        while True:
            one = _PipelineRun(
                spark, journal, tables, lock, wanted, tell, rows_per_file, files_max, whole, frozenset(damaged)
            )
            try:
                return one.run(again=again, late=late)
            except Exception as error:
                if _is_gone(error):
                    missed += 1
                    if missed == TRIES:
                        raise
                elif found := one.damaged_by(error):
                    damaged |= found
                else:
                    raise


def bytes_to_look_into(journal: Place, tables: Place, *, all_days: bool) -> int:
    """Of the files of the days that a run will look into: there is no more to do than that."""
    there, stored = source.days_in(journal), state.load(tables)
    days, _ = plan.days_to_look_into(there, state.days(tables, stored), stored)
    return sum(each.bytes for each in source.found_in(journal, there if all_days else days))


@dataclass
class _PipelineRun:
    """One run, with what it knows."""

    _spark: SparkSession
    _journal: Place
    _place: Place
    _lock: Lock
    _registry: Sequence[Table]
    _tell: Tell
    _rows_per_file: int
    _files_max: int | None
    _whole: bool
    #: Files of the journal that an earlier attempt has stumbled over.
    _damaged: frozenset[str]

    def __post_init__(self) -> None:
        self._store = Store(self._place)
        #: The days of the journal, those that were looked into, and the files of these that count.
        self._there: set[str] = set()
        self._days: set[str] = set()
        self._sound: tuple[Sound, ...] = ()
        #: The complete day whose turn it was to be looked into; and whether there are more new files than wanted.
        self._looked = ""
        self._more = False
        #: The first day with rows that whole tables do not know; None if they are to be made of everything.
        self._changed: str | None = None
        #: Hours that new rows in the next one have nothing to do with.
        self._unaffected: set[int] = set()
        #: The scales of tables that could be started so far; a session for each scale; and tables that count few rows.
        self._scales: dict[str, Scale] = {}
        self._sessions: dict[Scale, SparkSession] = {}
        self._counted: set[str] = set()
        #: Rows of the journal by session, table, hours and way, while the tables that share them are made.
        self._shared: dict[tuple[SparkSession, str, frozenset[int], bool], DataFrame] = {}
        #: The files of the journal that some table has asked for.
        self._asked_for: set[str] = set()

    def run(self, *, again: bool, late: bool) -> RunSummary:
        began = time.monotonic()
        self._store.clean()
        older.finish(self._store)
        stored = state.load(self._place)
        if stored.is_by_hour or not stored.number:
            if stored.number:
                self._tell(ProgressStep("arrange", done=True))
            older.arrange(self._store, [table for table in self._registry if table.grain is Grain.HOURLY])
        if stored.is_misfiled:
            self._tell(ProgressStep("renew", done=True))
        digests = {table.name: digest_of(table) for table in self._registry}
        before, sight, planned = self._plan(stored, digests, again=again or stored.is_misfiled, late=late)
        is_redefined = stored.tables != digests
        self._whole = (self._whole and not self._more) or is_redefined
        self._changed = None if again or is_redefined or stored.is_misfiled else plan.first_change(before, planned)
        made = [] if planned.is_empty else self._make(planned)
        after = plan.after(before, sight, planned, digests, whole=self._whole or not planned.whole, looked=self._looked)
        # A state that says the same of the tables does not deserve a new number.
        is_news = (after.files, after.frozen, after.bad) != (before.files, before.frozen, before.bad)
        is_news = is_news or bool(made) or before.is_by_hour
        if not is_news:
            after = replace(before, looked=self._looked)
        if after != before:
            self._tell(ProgressStep("remember"))
            self._lock.check()
            state.save(self._place, after, before)
        self._store.clean()
        return RunSummary(
            journal=str(self._journal),
            tables_folder=str(self._place),
            files=len(sight.sound),
            files_new=len(planned.new),
            rows_new=sum(each.rows for each in planned.new),
            files_same=len(planned.same),
            files_expired=len(planned.expired),
            late=tuple(each.path for each in planned.late),
            bad=sight.bad,
            hours=len(_touched(planned, sight)),
            tables=tuple(made),
            seconds=time.monotonic() - began,
            state=after.number,
            renewed=stored.is_misfiled,
            more=self._more,
            stale=after.stale is not None,
        )

    # -- deciding -------------------------------------------------------------------------------------------------

    def _plan(
        self, stored: RunState, digests: dict[str, str], *, again: bool, late: bool
    ) -> tuple[RunState, Sight, RunPlan]:
        began = time.monotonic()
        self._tell(ProgressStep("look"))
        there = source.days_in(self._journal)
        known = state.days(self._place, stored)
        days, self._looked = plan.days_to_look_into(there, known, stored)
        if again or late or stored.is_by_hour or stored.tables != digests:
            days = there
        while True:
            before = state.with_days(self._place, stored, days)
            sight = self._look(before, days)
            planned = plan.make(before, sight, self._registry, digests, again=again, damaged=self._damaged)
            if planned.expired:
                # A folder that is compacted while it is listed may show neither the old nor the new file, but not
                # twice.
                sight = self._look(before, days)
                planned = plan.make(before, sight, self._registry, digests, again=again, damaged=self._damaged)
            if not (more := (plan.days_read(planned) & there) - days):
                break
            days = days | more
        self._there, self._days, self._sound = there, days, sight.sound
        candidates = {hour for wanted in planned.only_before.values() for hour in wanted}
        self._unaffected = unaffected_hours(self._journal, sight.sound, planned.new, candidates)
        planned = plan.without(planned, self._unaffected)
        rows = sum(each.rows for each in planned.new)
        touched = len(_touched(planned, sight))
        self._tell(ProgressStep("look", done=True, rows=rows, hours=touched, seconds=time.monotonic() - began))
        return before, sight, planned

    def _look(self, before: RunState, days: Collection[str]) -> Sight:
        found = source.found_in(self._journal, days)
        if not found and not before.number:
            raise source.empty(self._journal)
        admitted, self._more = plan.admitted(found, before, self._files_max)
        suspects = {*self._damaged, *before.bad}
        return plan.look(admitted, before, partial(source.check_all, self._journal, suspects=suspects), suspects)

    def damaged_by(self, error: Exception) -> set[str]:
        """Files of the journal that are the reason for an error; none, if it is about something else."""
        if not _is_unreadable(error):
            return set()
        self._tell(ProgressStep("look"))
        asked = sorted(self._asked_for - self._damaged)
        # Spark names the file. Reading all of them may take long, but is quicker if one after the other is damaged.
        named = [path for path in asked if path.rpartition("/")[2] in str(error) and not self._damaged]
        return source.damaged(self._journal, named) or source.damaged(self._journal, asked)

    # -- making ---------------------------------------------------------------------------------------------------

    def _make(self, planned: RunPlan) -> list[TableDone]:
        """Each as soon as its inputs are there."""
        tables = {
            table.name: table
            for table in self._registry
            if planned.hourly.get(table.name) or (table.name in planned.whole and self._whole)
        }
        hourly = {name for name in tables if planned.hourly.get(name)}

        def is_alone(name: str) -> bool:
            scale = self._scale_for(tables[name], planned)
            if scale not in self._sessions:
                self._sessions[scale] = session_for(self._spark, scale)
            self._scales[name] = scale
            return scale is Scale.LARGE

        def make(name: str) -> TableDone:
            return self._make_table(tables[name], planned.hourly.get(name))

        def done(name: str) -> None:
            hourly.discard(name)
            if not hourly:
                self._let_go()

        needs = {name: table.inputs for name, table in tables.items()}
        try:
            made = make_all(self._spark, Schedule(needs, threads_for(self._spark), is_alone), make, done)
        finally:
            self._let_go()
        return [made[name] for name in tables]

    def _let_go(self) -> None:
        """Release what the hourly tables share."""
        self._shared.clear()
        release_cached()

    def _scale_for(self, table: Table, planned: RunPlan) -> Scale:
        """By the rows that the journal has for it in these hours; a whole table by the size of what it is made of."""
        wanted = planned.hourly.get(table.name)
        if not wanted:
            return Scale.SMALL if self._bytes_for(table) <= SMALL_BYTES else Scale.LARGE
        roots, read = plan.roots(table, self._registry), plan.to_read(table, wanted, self._unaffected)
        if self._rows_of(roots, read) <= COUNTED_ROWS and not is_cut(table):
            self._counted.add(table.name)
        # What Spark does not read does not slow it down; but if it reads nothing, the rest says how much is made.
        scale = scale_for(self._rows_of(roots.difference(table.by_arrow) or roots, read))
        # And of many tasks many may be remarkable.
        is_large = self._rows_of(roots.intersection(table.by_arrow), read) > MEDIUM_ROWS
        return Scale.MEDIUM if is_large and scale is Scale.SMALL else scale

    def _rows_of(self, roots: Collection[str], read: Collection[int]) -> int:
        return sum(each.rows for each in self._sound if each.file.table in roots and each.hour in read)

    def _bytes_for(self, table: Table) -> int:
        since = self._begin_of(table, self._changed)
        journal = sum(each.bytes for each in self._sound if each.file.table in table.inputs)
        made = (self._made(name) for name in table.inputs if name not in schema.TABLES)
        return journal + sum(self._store.bytes_of(each, since.get(each.name, "")) for each in made)

    def _make_table(self, table: Table, wanted: frozenset[int] | None) -> TableDone:
        """These hours of it; without any, the whole table."""
        began = time.monotonic()
        self._tell(ProgressStep("stage", table.name, hours=len(wanted or ())))
        made = self._stage(table, wanted) if self._may_have_rows(table) else self._store.stage_nothing(table)
        self._tell(ProgressStep("publish", table.name, rows=made.rows, hours=len(made.hours)))
        self._lock.check()
        if wanted:
            self._store.publish_hours(made, self._hours_with_files(table))
        else:
            self._store.publish_whole(made)
        done = TableDone(table.name, len(made.hours), made.rows, time.monotonic() - began)
        self._tell(
            ProgressStep("publish", done.table, done=True, rows=done.rows, hours=done.hours, seconds=done.seconds)
        )
        return done

    def _stage(self, table: Table, wanted: frozenset[int] | None) -> Made:
        spark, few = self._sessions[self._scales[table.name]], self._makes_few(table)
        if wanted:
            read = plan.to_read(table, wanted, self._unaffected)
            inputs = [self._input(spark, table, name, read) for name in table.inputs]
            beside = table.beside(*inputs) if table.beside is not None else None
            parts, rows = self._parts(table, wanted), table.make(*inputs)
            return self._store.stage_hours(table, rows, wanted, parts, few=few, beside=beside)
        return self._store.stage_whole(table, self._whole_rows(spark, table), few=few)

    def _whole_rows(self, spark: SparkSession, table: Table) -> DataFrame:
        keeps = table.keeps
        if keeps is None or self._changed is None:
            return table.make_whole(*self._whole_inputs(spark, table, self._begin_of(table, None)))
        first, at = F.lit(hours.days_before(self._changed, keeps.days)).cast("date"), F.col(keeps.column)
        inputs = self._whole_inputs(spark, table, self._begin_of(table, self._changed))
        older_rows = keeps.still_hold(self._store.read(spark, table).where(at < first), *inputs)
        if older_rows is None:
            return table.make_whole(*self._whole_inputs(spark, table, self._begin_of(table, None)))
        return keeps.finish(table.make_whole(*inputs).where(at >= first).unionByName(older_rows)).select(
            *older_rows.columns
        )

    def _whole_inputs(self, spark: SparkSession, table: Table, since: dict[str, str]) -> list[DataFrame]:
        of_journal = next(iter(since.values()), "")
        return [
            self._journal_since(spark, name, of_journal)
            if name in schema.TABLES
            else self._store.read(spark, self._made(name), None, table.wants.get(name), since.get(name, ""))
            for name in table.inputs
        ]

    def _begin_of(self, table: Table, changed: str | None) -> dict[str, str]:
        """The first day that matters of inputs of a whole table. `changed`: the first with rows that it does not know;
        None if it is made of everything."""
        newest = {name: day for name in table.last_days if (day := self._newest_of(name)) is not None}
        # If it has ended long before the others, they are looked at together.
        end = next(iter(newest.values()), "")
        since = {name: hours.days_before(min(day, end), table.last_days[name]) for name, day in newest.items()}
        if table.keeps is None or changed is None:
            return since
        first = hours.days_before(changed, table.keeps.days + table.keeps.days_before)
        hourly = [name for name in table.inputs if self._is_hourly(name)]
        # With rows, if there are any: they tell what time it is.
        return {name: min(first, self._newest_of(name) or first) for name in hourly} | since

    def _newest_of(self, name: str) -> str | None:
        return self._store.newest_day(self._made(name))

    def _journal_since(self, spark: SparkSession, name: str, since: str) -> DataFrame:
        """Rows of the journal for a whole table, also of days that there was no other reason to look into."""
        wanted = {day for day in self._there if day >= since}
        found = [each for each in self._sound if each.file.table == name and hours.day_of(each.hour) in wanted]
        if missing := wanted - self._days:
            there = source.found_in(self._journal, missing, [name])
            found.extend(plan.look(there, RunState(), partial(source.check_all, self._journal)).sound)
        self._asked_for.update(each.path for each in found)
        return source.read(spark, self._journal, name, found)

    def _may_have_rows(self, table: Table) -> bool:
        if table.needs is None:
            return True
        name, column = table.needs
        return self._store.has_values(self._made(name), column, self._begin_of(table, None).get(name, ""))

    def _made(self, name: str) -> Table:
        return next(table for table in self._registry if table.name == name)

    def _is_hourly(self, name: str) -> bool:
        return any(table.name == name and table.grain is Grain.HOURLY for table in self._registry)

    def _makes_few(self, table: Table) -> bool:
        scale = self._scales[table.name]
        return scale is Scale.SMALL or (scale is Scale.MEDIUM and table.name in self._counted)

    def _input(self, spark: SparkSession, table: Table, name: str, wanted: frozenset[int] | None) -> DataFrame:
        """Some columns of a table that was made, or all columns of one of the journal; these hours, or all.

        All who want the same hours of the journal at the same scale get the very same rows: see
        `famulus.pipeline.tables.memo`.
        """
        if name not in schema.TABLES:
            return self._store.read(spark, self._made(name), wanted, table.wants.get(name))
        found = [each for each in self._sound if each.file.table == name and (wanted is None or each.hour in wanted)]
        by_arrow = name in table.by_arrow
        key = (spark, name, frozenset(each.hour for each in found), by_arrow)
        rows = self._shared.get(key)
        if rows is not None:
            return rows
        self._asked_for.update(each.path for each in found)
        # Another thread may have been quicker.
        return self._shared.setdefault(key, source.read(spark, self._journal, name, found, by_arrow=by_arrow))

    def _parts(self, table: Table, wanted: Collection[int]) -> dict[int, int]:
        """Hours that are cut, and into how many parts: never fewer than there are."""
        if not is_cut(table):
            return {}
        rows: dict[int, int] = defaultdict(int)
        for each in self._sound:
            if each.file.table == "tasks":
                rows[each.hour] += each.rows
        there = self._store.parts(table, wanted)
        needed = {hour: max(plan.parts_of(rows[hour], self._rows_per_file), there[hour]) for hour in wanted}
        return {hour: count for hour, count in needed.items() if count > 1}

    def _hours_with_files(self, table: Table) -> set[int]:
        wanted = plan.roots(table, self._registry)
        return {each.hour for each in self._sound if each.file.table in wanted}


def _touched(planned: RunPlan, sight: Sight) -> set[int]:
    """Hours that are made; an hour without any files is not worth reporting."""
    there = {each.hour for each in sight.sound}
    return there & {hour for each in planned.hourly.values() for hour in each}


def _is_unreadable(error: Exception) -> bool:
    """Whether Spark, or we, could not make sense of a file."""
    said = str(error)
    return isinstance(error, FileDamaged) or any(
        word in said for word in ("FAILED_READ_FILE", "org.apache.parquet", "FileDamaged")
    )


def _is_gone(error: Exception) -> bool:
    """Whether Spark, or we, missed a file that was there a moment ago."""
    said = str(error)
    return isinstance(error, FileGone) or any(
        word in said for word in ("FILE_NOT_EXIST", "PATH_NOT_FOUND", "FileNotFoundException", "FileGone")
    )
