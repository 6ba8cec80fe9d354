"""Asks for the rows of one partition: sends them within a window, waits out overload, and gives them back in order.

It runs in a Python process of an executor. At most a window of tasks, and a few batches of rows around them, are in
memory, however long the partition is. What the network has no room for rests and keeps its place in the window, so it
is the stage that gets slower, until the time of a row is over.
"""

from __future__ import annotations

import random
from collections.abc import Generator, Iterable, Iterator
from heapq import heappop, heappush
from time import monotonic_ns
from typing import Final

import pyarrow as pa

from famulus import Client
from famulus.client.many import Done, Many
from famulus.errors import BrokerUnreachable
from famulus.spark.asked_batch import AskedBatch, body_of, failed
from famulus.spark.clients import client_of
from famulus.spark.codecs import Codec, codec
from famulus.spark.seen_keys import SeenKeys
from famulus.spark.task_ids import TaskIds
from famulus.spark.terms import Terms
from famulus.wire import limits, reasons

# Final, so that compiled code has it at hand instead of looking it up each time.
clock_ns: Final = monotonic_ns

#: Of bodies that are under way, or one body.
OPEN_BYTES_MAX: Final = 32 * 1024 * 1024
#: The pause before a refused row is asked for again: doubling, from the first value to the second, less up to a half.
PAUSE_NS: Final = (100_000_000, 2_000_000_000)
#: A task's number is that of its batch and, in so many bits, its place there.
BATCH_BITS: Final = 32
PLACE_BITS: Final = (1 << BATCH_BITS) - 1
NS_PER_MS: Final = 1_000_000
#: With nothing to wait for but outcomes.
LONG_S: Final = 60.0


def answered(terms: Terms, batches: Iterable[pa.RecordBatch]) -> Generator[pa.RecordBatch, None, None]:
    """The rows of a partition with their answers and outcomes."""
    run = terms.run.here()
    with client_of(terms.contact, run.token) as client:
        partition = Partition(terms, client, TaskIds(run.name, terms.service, run.batch))
        try:
            yield from partition.answered(iter(batches))
        finally:
            partition.close()


class Partition:
    def __init__(self, terms: Terms, client: Client, ids: TaskIds) -> None:
        self._terms = terms
        self._window = terms.window
        self._client = client
        self._many = Many(
            client,
            terms.service,
            priority=terms.priority,
            at_least_once=terms.at_least_once,
            idempotent=terms.idempotent,
            headers=dict(terms.headers),
        )
        self._ids = ids
        self._body_codec: Codec | None = None
        self._answer_codec = codec(terms.answer_codec, terms.answer_schema)
        self._seen = SeenKeys()
        #: Batches whose rows were not given back yet, by number; they are given back in their order.
        self._batches: dict[int, AskedBatch] = {}
        self._first = self._begun = 0
        #: Where the next task is. In no batch at first, and once the last one has been used up.
        self._last: AskedBatch | None = None
        self._next = 0
        #: Tasks that have not ended: under way, or resting until they are due.
        self._open = self._open_bytes = 0
        self._resting: list[tuple[int, int]] = []
        self._asked = self._answered = self._retried = self._refused = 0

    def close(self) -> None:
        """What is open is cancelled: nobody will take its answers."""
        self._many.close()
        if self._terms.counts is not None:
            self._terms.counts.add(self._asked, self._answered, self._retried, self._refused)

    def answered(self, source: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        is_over = False
        while True:
            self._hear(0)
            yield from self._done()
            self._ask_again()
            if self._last is None and not is_over and self._has_room:
                # Spark may take its time. Nobody waits for that: what has an answer has been given back.
                rows = next(source, None)
                is_over = rows is None
                if rows is not None:
                    self._begin(rows)
            self._ask()
            if is_over and not self._open:
                return
            if is_over or not self._has_room:
                self._hear(self._pause_s())

    # -- what is asked ----------------------------------------------------------------------------------------------

    @property
    def _has_room(self) -> bool:
        return self._open < self._window and self._open_bytes < OPEN_BYTES_MAX

    def _begin(self, rows: pa.RecordBatch) -> None:
        if not rows.num_rows:
            return
        if self._body_codec is None:
            self._body_codec = codec(self._terms.codec, body_of(rows, self._terms).schema)
        batch = AskedBatch(rows, self._terms, self._body_codec, self._ids)
        if self._terms.key and self._terms.keys_differ and self._terms.rows_per_task == 1:
            self._seen.add(batch.ids, rows.select(list(self._terms.key)))
        self._batches[self._begun] = self._last = batch
        self._begun += 1
        self._next = 0

    def _ask(self) -> None:
        """For rows of the last batch, as many as there is room for."""
        batch = self._last
        if batch is None:
            return
        numbers: list[int] = []
        bodies: list[bytes] = []
        ids: list[str] = []
        number = (self._begun - 1) << BATCH_BITS
        now_ns = clock_ns()
        room, room_bytes = self._window - self._open, OPEN_BYTES_MAX - self._open_bytes
        place = self._next
        while place < batch.tasks and room > 0 and room_bytes > 0:
            body, message_id = batch.bodies[place], batch.ids[place]
            if body is None or message_id is None or len(body) > limits.BODY_BYTES_MAX:
                batch.refuse(place)
                self._refused += 1
            else:
                batch.asked_ns[place] = now_ns
                room -= 1
                room_bytes -= len(body)
                numbers.append(number + place)
                bodies.append(body)
                ids.append(message_id)
            place += 1
        self._next = place
        if place == batch.tasks:
            self._last = None
        if bodies:
            self._open, self._open_bytes = self._window - room, OPEN_BYTES_MAX - room_bytes
            self._asked += len(bodies)
            self._many.submit(numbers, bodies, ids, self._terms.timeout_ms)

    def _ask_again(self) -> None:
        """For those that have rested, with what is left of their time."""
        now_ns = clock_ns()
        while self._resting and self._resting[0][0] <= now_ns:
            number = heappop(self._resting)[1]
            batch, place = self._batches[number >> BATCH_BITS], number & PLACE_BITS
            body, message_id = batch.bodies[place], batch.ids[place]
            assert body is not None
            left_ms = self._terms.timeout_ms - (now_ns - batch.asked_ns[place]) // NS_PER_MS
            self._many.submit([number], [body], [message_id or ""], max(1, left_ms))

    def _pause_s(self) -> float:
        return (self._resting[0][0] - clock_ns()) / 1e9 if self._resting else LONG_S

    # -- what comes -------------------------------------------------------------------------------------------------

    def _hear(self, wait_s: float) -> None:
        batches = self._batches
        for ended_ns, done in self._many.take(wait_s):
            batch, place = batches[done.place >> BATCH_BITS], done.place & PLACE_BITS
            if done.tries:
                self._retried += done.tries
            if done.outcome == "OK":
                self._answered += 1
                self._open -= 1
                self._open_bytes -= batch.end(place, ended_ns, done.body, done.message_id)
            else:
                self._fail(batch, place, ended_ns, done)

    def _fail(self, batch: AskedBatch, place: int, now_ns: int, done: Done) -> None:
        if done.outcome == "REJECTED":
            if reasons.code_of(done.reason) == reasons.OVERLOAD and self._rests(batch, place, done.place, now_ns):
                return
            if not self._answered and not self._client.was_connected:
                raise self._unreachable()
            self._refused += 1
        elif done.outcome == "ERROR":
            self._answered += 1
        if done.outcome in self._terms.fail_on:
            raise failed(self._terms, done.outcome, done.reason, done.message_id)
        self._open -= 1
        self._open_bytes -= batch.fail(place, now_ns, done.outcome, done.reason, done.message_id)

    def _rests(self, batch: AskedBatch, place: int, number: int, now_ns: int) -> bool:
        """There is no room for it in the network. Its client has a budget for trying again, and we have time."""
        pause_ns = min(PAUSE_NS[0] << min(batch.tries[place], 30), PAUSE_NS[1])
        due_ns = now_ns + pause_ns // 2 + int(random.random() * (pause_ns // 2))
        if due_ns - batch.asked_ns[place] >= self._terms.timeout_ms * NS_PER_MS:
            return False
        batch.tries[place] += 1
        self._retried += 1
        heappush(self._resting, (due_ns, number))
        return True

    def _done(self) -> Iterator[pa.RecordBatch]:
        """Batches of which each row has its outcome."""
        while self._first < self._begun and not self._batches[self._first].open:
            yield self._batches.pop(self._first).answered(self._answer_codec)
            self._first += 1

    def _unreachable(self) -> BrokerUnreachable:
        address = self._client.address
        if self._client.was_turned_away:
            return BrokerUnreachable(
                f"the broker at {address} wants a pass, or another one: pass_file, or FAMULUS_PASS"
            )
        return BrokerUnreachable(f"no broker answers at {address}: say broker=, or set FAMULUS_FRONTEND for executors")
