"""Streams of the invented world: what workers make, how clients read, and what a broker may pass on of it.

How many parts a task has follows from its name, and each part names its task and its number: so whoever sees one knows
whether it is right.
"""

from __future__ import annotations

from random import Random

from famulus.core.clock import NS_PER_MS
from famulus.core.session.client import Streamed
from famulus.lab.sim.invariants import Invariant, demand
from famulus.lab.sim.network import Frames
from famulus.wire import headers, stream

#: How many of the tasks are asked for as streams, and with which credit: few, so that the same headers recur.
SHARE = 0.2
CREDITS = (1, 3)
PARTS_MAX = 8
#: How long a worker takes for a part, and a slow reader.
PART_NS = 40 * NS_PER_MS
READING_NS = 150 * NS_PER_MS


def parts_of(body: bytes) -> int:
    """How many parts this task has, whoever does it."""
    return len(body) % (PARTS_MAX + 1)


def part_of(body: bytes, number: int) -> bytes:
    return b"%b|%d" % (body, number)


def whose_part(part: bytes) -> bytes:
    return part.partition(b"|")[0]


class StreamReader:
    """Reads at once or slowly; now and then it stops for ever, or leaves."""

    def __init__(self, streamed: Streamed, seed: int) -> None:
        self.streamed = streamed
        # Its own habits, whatever else its client does in the same moment.
        random = Random(f"{seed}/{streamed.token!r}")
        self.pause_ns = 0 if random.random() < 0.5 else 1 + random.randrange(READING_NS)
        habit = random.random()
        self.stops_at = random.randrange(PARTS_MAX) if habit < 0.15 else PARTS_MAX + 1
        self.leaves_at = random.randrange(1, PARTS_MAX) if habit > 0.85 else PARTS_MAX + 1
        self.is_reading = False

    def read(self) -> None:
        """The next part, which must be there."""
        streamed = self.streamed
        body = streamed.take()
        assert isinstance(streamed.token, bytes)
        # A worker may answer plainly, too.
        wanted = part_of(streamed.token, streamed.taken) if streamed.came else streamed.token
        demand(body == wanted, Invariant.STREAMS, f"instead of {wanted!r}, {body!r} came")

    def check_end(self, *, is_cancelled: bool) -> None:
        """It has its outcome."""
        streamed = self.streamed
        assert isinstance(streamed.token, bytes)
        while streamed.parts:
            self.read()
        name = f"stream {streamed.token!r}"
        is_broken = "incomplete" in streamed.reason and not is_cancelled
        demand(not is_broken, Invariant.STREAMS, f"{name} was broken by its broker: {streamed.reason}")
        if streamed.outcome == "OK" and streamed.came:
            made = parts_of(streamed.token)
            demand(streamed.came == made, Invariant.STREAMS, f"{name} is OK with {streamed.came} of {made} parts")
            demand(streamed.taken == made or is_cancelled, Invariant.STREAMS, f"a part of {name} was not there to read")


class StreamWatcher:
    """Of one broker: what it passes on, and of whose tasks."""

    def __init__(self, name: str) -> None:
        self._name = name
        #: By connection and envelope: the last part that is wanted, and the last that was sent.
        self._wanted: dict[tuple[bytes, bytes], int] = {}
        self._sent: dict[tuple[bytes, bytes], int] = {}
        #: Tasks of which a part has gone out.
        self._begun: set[bytes] = set()

    def on_client(self, peer: bytes, message: Frames) -> None:
        if len(message) != 3:
            return
        envelope, header, body = message
        if header == headers.CREDIT and len(body) >= stream.NUMBER_BYTES:
            envelope, last = stream.read_credit(body)
            if (peer, envelope) in self._wanted:
                self._wanted[peer, envelope] = max(self._wanted[peer, envelope], last)
        elif b'"credit":' in header and (request := headers.read_task_request(header)) is not None:
            self._wanted[peer, envelope] = request.credit

    def on_answer(self, peer: bytes, envelope: bytes, header: bytes, body: bytes) -> None:
        if header != headers.PART:
            self._wanted.pop((peer, envelope), None)
            return
        place, number = stream.read_place(envelope)
        wanted = self._wanted.get((peer, place))
        name = f"{self._name} passes on part {number} of {whose_part(body)!r}"
        demand(wanted is not None, Invariant.STREAMS, f"{name} to somebody who waits for none")
        if number == stream.PROGRESS:
            return
        sent = self._sent.get((peer, place), 0)
        demand(number == sent + 1, Invariant.STREAMS, f"{name} after part {sent}")
        demand(number <= (wanted or 0), Invariant.STREAMS, f"{name}, and {wanted} are wanted")
        self._sent[peer, place] = number
        self._begun.add(whose_part(body))

    def on_hand_out(self, body: bytes) -> None:
        what = f"{self._name} gives stream {body!r} out again after its first part"
        demand(body not in self._begun, Invariant.STREAMS, what)
