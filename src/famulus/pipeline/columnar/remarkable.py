"""Tells the tasks that are worth a look from the plain ones, of which nearly all rows of a journal are.

A task is plain if its one row says all about it: it ended, and was not handed over. Or if it has two rows, within one
minute: one of the broker that its client asked, and one of the broker that this one gave it to. A row that cannot be
right, or whose ticket another row has, or whose task has rows in the hour before or after, is never plain.

Of checkpoints, only those are worth a look whose task did not end within an hour.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from famulus.journal import arrow
from famulus.pipeline.columnar import hashes
from famulus.pipeline.columnar.hashes import is_among
from famulus.pipeline.columnar.rows import US_PER_MINUTE, Array, Rows

_ID: Final = "message_id"
_LAST_SEEN: Final = ("at", "broker", "boot", "ticket")
_ALL: Final = arrow.schema_of("tasks").names
_ALL_OPEN: Final = arrow.schema_of("open_tasks").names
_NO_TASKS: Final = arrow.schema_of("tasks").remove_metadata().empty_table()
_NO_OPEN: Final = arrow.schema_of("open_tasks").remove_metadata().empty_table()
_OF_TICKETS: Final = ("ticket", "broker", "boot", "outcome")
#: Picks rows of a part of an hour: a file, for example.
Keep = Callable[[pa.Table], pa.Table]
#: Reads columns of an hour, or what is to be kept of them.
Read = Callable[[int, Sequence[str], Keep], pa.Table]


@dataclass(frozen=True, slots=True)
class Remarkable:
    """Of an hour: rows of tasks, with the hash of each one's task; and of tasks that were left open the last sign, as
    rows of `open_tasks`."""

    hour: int
    tasks: pa.Table
    hashes: Array
    opened: pa.Table


@dataclass(frozen=True, slots=True)
class Share:
    """All rows of some tasks, where those of all would be too many at once."""

    number: int
    count: int

    def of(self, rows: pa.Table) -> pa.Table:
        if self.count == 1:
            return rows
        return rows.filter(pa.array(hashes.of_texts(rows[_ID]) % np.uint64(self.count) == self.number))


class HourOfTasks:
    """The rows of an hour, with what its neighbours want to know of them."""

    def __init__(self, hour: int, share: Share, read_tasks: Read, read_open: Read) -> None:
        self.hour = hour
        self._share = share
        self._read_tasks = read_tasks
        self.rows = Rows(read_tasks(hour, _ALL, share.of))
        again = self.taken(np.flatnonzero(self.rows.is_any("outcome", "RETRY")))
        self.opened = _accountable(again, read_open(hour, _ALL_OPEN, share.of))

    def taken(self, rows: Array) -> pa.Table:
        """These rows, with plain texts."""
        return self.rows.table.take(pa.array(rows)).cast(_NO_TASKS.schema)

    def as_neighbour(self) -> HourOfTasks:
        """With what the hour after it wants to know, and nothing else."""
        _ = self.ordered, self.tickets, self.settled
        self.rows = Rows(self.rows.table.select([_ID]))
        return self

    @cached_property
    def of_task(self) -> Array:
        return hashes.of_texts(self.rows.table[_ID])

    @cached_property
    def ordered(self) -> Array:
        return np.sort(self.of_task)

    @cached_property
    def of_ticket(self) -> Array:
        return _of_tickets(self.rows)

    @cached_property
    def tickets(self) -> Array:
        """Of all tasks, whatever the share."""
        if self._share.count == 1:
            return np.sort(self.of_ticket)
        return np.sort(_of_tickets(Rows(self._read_tasks(self.hour, _OF_TICKETS, _all_rows))))

    @cached_property
    def settled(self) -> tuple[Array, Array]:
        """The hashes of tasks that ended, in order, and their rows."""
        rows = np.flatnonzero(self.rows.is_settled)
        order = np.argsort(self.of_task[rows])
        return self.of_task[rows][order], rows[order]

    def has_ended(self, ids: pa.Array, of_ids: Array) -> Array:
        """Which of these tasks were settled in this hour."""
        known, rows = self.settled
        found = is_among(of_ids, known)
        at = np.flatnonzero(found)
        told = self.rows.table[_ID].take(pa.array(rows[np.searchsorted(known, of_ids[at])]))
        same = pc.equal(told, ids.take(pa.array(at))).to_numpy()
        if not same.all():
            # Another task has the same hash.
            others = at[~same]
            settled = self.rows.table[_ID].take(pa.array(rows))
            found[others] = pc.is_in(ids.take(pa.array(others)), settled).to_numpy(zero_copy_only=False)
        return found


def remarkable(hours: Sequence[int], read_tasks: Read, read_open: Read, *, shares: int = 1) -> Iterator[Remarkable]:
    """Of these hours, in order; of each in several shares, if need be. Their neighbours are read, too."""
    for share in (Share(number, shares) for number in range(shares)):
        known: dict[int, HourOfTasks] = {}
        for hour in hours:
            near = range(hour - 1, hour + 2)
            known = {each: known.get(each) or HourOfTasks(each, share, read_tasks, read_open) for each in near}
            yield _of_hour(known[hour], [known[hour - 1].as_neighbour(), known[hour + 1]])


def _all_rows(rows: pa.Table) -> pa.Table:
    return rows


def _of_tickets(rows: Rows) -> Array:
    """Hashes of the tickets of attempts; a late answer repeats that of its attempt, so it does not count."""
    broker, boot = (hashes.of_texts(rows.table[name]) for name in ("broker", "boot"))
    return hashes.of_numbers(rows.numbers("ticket"), broker ^ boot)[~rows.is_any("outcome", "LATE")]


def _of_hour(own: HourOfTasks, neighbours: list[HourOfTasks]) -> Remarkable:
    wanted = np.flatnonzero(~_is_plain(own, neighbours))
    return Remarkable(own.hour, own.taken(wanted), own.of_task[wanted], _left_open(own, neighbours))


# -- tasks ------------------------------------------------------------------------------------------------------------


def _is_plain(own: HourOfTasks, neighbours: list[HourOfTasks]) -> Array:
    rows = own.rows
    good = rows.is_final & _is_sane(rows) & ~_has_ticket_of_others(own, neighbours)
    good &= ~is_among(own.of_task, _common(own.ordered, [each.ordered for each in neighbours]))
    several = is_among(own.of_task, hashes.repeated(own.ordered))
    plain = good & ~several & ~rows.has("delegated_from") & ~rows.has("delegated_to")
    plain[_handed_over(own, np.flatnonzero(several), good)] = True
    return plain


def _is_sane(rows: Rows) -> Array:
    """Its instants are in order, and it took no less than no time."""
    arrived, assigned, ended = (rows.numbers(name) for name in ("arrived", "assigned", "ended"))
    took = [(~rows.has(name)) | (rows.numbers(name) >= 0) for name in ("queue_ns", "service_ns", "total_ns")]
    in_order = (arrived <= ended) & (~rows.has("assigned") | ((arrived <= assigned) & (assigned <= ended)))
    return in_order & took[0] & took[1] & took[2]


def _has_ticket_of_others(own: HourOfTasks, neighbours: list[HourOfTasks]) -> Array:
    has = is_among(own.of_ticket, hashes.repeated(own.tickets))
    has |= is_among(own.of_ticket, _common(own.tickets, [each.tickets for each in neighbours]))
    found = np.zeros(len(own.rows), bool)
    found[~own.rows.is_any("outcome", "LATE")] = has
    return found


def _common(ordered: Array, others: Iterable[Array]) -> Array:
    """Those that any of the others has as well. All are in order: so looking them up is quick, and few are left."""
    found = [ordered[is_among(ordered, other)] for other in others]
    return np.sort(np.concatenate(found)) if found else ordered[:0]


def _handed_over(own: HourOfTasks, several: Array, good: Array) -> Array:
    """Of rows that share their hash, those of tasks that were given to another broker, and ended at both alike."""
    order = several[np.argsort(own.of_task[several], kind="stable")]
    of_task = own.of_task[order]
    begins = np.flatnonzero(np.append(True, of_task[1:] != of_task[:-1])) if len(order) else np.empty(0, np.int64)
    begins = begins[np.diff(np.append(begins, len(order))) == 2]
    one, other = order[begins], order[begins + 1]
    rows = own.rows
    swap = rows.has("delegated_from")[one]
    given, taken = np.where(swap, other, one), np.where(swap, one, other)
    whole = good[given] & good[taken]
    whole &= rows.has("delegated_to")[given] & ~rows.has("delegated_from")[given] & ~rows.has("worker")[given]
    whole &= rows.has("delegated_from")[taken] & ~rows.has("delegated_to")[taken]
    whole &= ~(rows.is_any("outcome", "REJECTED")[given] & rows.is_run[taken])
    minute = rows.numbers("ended") // US_PER_MINUTE
    whole &= minute[given] == minute[taken]
    given, taken = given[whole], taken[whole]
    same = _are_equal(rows, _ID, given, _ID, taken)
    same &= _are_equal(rows, "delegated_to", given, "broker", taken)
    same &= _are_equal(rows, "broker", given, "delegated_from", taken)
    same &= ~_are_equal(rows, "broker", given, "broker", taken)
    return np.concatenate([given[same], taken[same]])


def _are_equal(rows: Rows, name: str, one: Array, other_name: str, other: Array) -> Array:
    left, right = rows.table[name].take(pa.array(one)), rows.table[other_name].take(pa.array(other))
    equal: Array = pc.equal(left.cast(pa.string()), right.cast(pa.string())).to_numpy(zero_copy_only=False)
    return equal


# -- open tasks -------------------------------------------------------------------------------------------------------


def _accountable(again: pa.Table, opened: pa.Table) -> pa.Table:
    """Signs that a task was open at the broker that its client asked: checkpoints, and attempts that another one was to
    follow."""
    again = again.rename_columns({"ended": "at"}).append_column("state", pa.repeat("retry", again.num_rows))
    rows = pa.concat_tables([opened, again.select(opened.column_names).cast(opened.schema)])
    return rows.filter(pc.is_null(rows["delegated_from"]))


def _left_open(own: HourOfTasks, neighbours: list[HourOfTasks]) -> pa.Table:
    """The last sign of each task that did not end in this hour or its neighbours, and gave none in the next one."""
    rows = own.opened
    ids = rows[_ID].combine_chunks()
    of_ids = hashes.of_texts(rows[_ID])
    left = np.ones(rows.num_rows, bool)
    for each in (own, *neighbours):
        at = np.flatnonzero(left)
        left[at] = ~each.has_ended(ids.take(pa.array(at)), of_ids[at])
    rows = rows.filter(pa.array(left)).cast(_NO_OPEN.schema)
    rows = rows.filter(pc.invert(pc.is_in(rows[_ID], neighbours[-1].opened[_ID].combine_chunks())))
    if rows.num_rows < 2:
        return rows
    rows = rows.sort_by([(name, "ascending") for name in (_ID, *_LAST_SEEN)])
    ids = rows[_ID].combine_chunks()
    is_last = pc.not_equal(ids.slice(0, len(ids) - 1), ids.slice(1)).to_numpy(zero_copy_only=False)
    return rows.filter(pa.array(np.append(is_last, True)))
