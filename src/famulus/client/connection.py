"""A client's connection: the line and the session, stepped by whoever owns the thread. Decides nothing.

There is one line, to the broker that the client is with. A line that it left, because its broker takes no more tasks,
is kept while that broker still owes it answers.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Set
from dataclasses import dataclass
from secrets import token_hex
from time import monotonic_ns
from typing import Final
from uuid import uuid4

from famulus.client.rules import checked_token
from famulus.core.clock import NS_PER_MS
from famulus.core.session.brokers import Brokers, read_told
from famulus.core.session.client import ClientSession, Done, Streamed
from famulus.core.silence import SELDOM_NS, SOON_NS
from famulus.net.addresses import frontends
from famulus.net.line import Change, Line
from famulus.net.passes import Pass, begin_to, turned_away

# Final, so that compiled code has it at hand instead of looking it up each time.
clock_ns: Final = monotonic_ns

#: How many messages leave in one go: while we write, nobody reads what has come.
BATCH_MAX: Final = 128
#: If we are later than planned by more than this, our thread or loop had no time, and the broker is not to blame.
PAUSE_NS: Final = 100 * NS_PER_MS
#: Brokers that we left and that still owe us answers.
FORMER_MAX: Final = 4


@dataclass
class Former:
    """A line that we left, and what is open on it."""

    line: Line
    leg: int
    owed: list[Done]

    def is_over(self, session: ClientSession) -> bool:
        while self.owed and not session.is_open(self.owed[-1], self.leg):
            self.owed.pop()
        return not self.owed


class Connection:
    def __init__(
        self,
        broker: str | Iterable[str] | None,
        told: Iterable[str] = (),
        *,
        token: str | None = None,
        admitted_by: Pass | None = None,
    ) -> None:
        """`told`: brokers that others told us of, if any are known already."""
        self._pass = admitted_by
        named = admitted_by.frontends if admitted_by is not None else ()
        self.brokers = Brokers(clock_ns(), frontends(broker, named), random.random)
        self.brokers.on_told(told)
        self._token = token
        self.session = ClientSession(
            0, _new_id, checked_token(token) if token is not None else token_hex(16), random.random
        )
        #: Called with the descriptor of a line: `watch` if it was made after the first, `forget` before it is closed.
        self.watch: Callable[[int], None] = _nobody_minds
        self.forget: Callable[[int], None] = _nobody_minds
        self._former: list[Former] = []
        #: No task was open when we last looked.
        self._idle = True
        self._tend_at_ns = 0
        self.line = self._line_to(self.brokers.address)
        self._plan()

    @property
    def address(self) -> str:
        return self.line.address

    @property
    def lines(self) -> list[Line]:
        return [self.line, *[former.line for former in self._former]]

    @property
    def next_due_ns(self) -> int:
        return min(self.session.next_due_ns, self._tend_at_ns)

    def step(self) -> list[Done]:
        """Take in what came, send whatever can leave; returns the tasks that ended by this."""
        session = self.session
        now_ns = clock_ns()
        done: list[Done] = []
        batch = self.line.recv()
        if batch:
            done += session.on_messages(batch, now_ns)
        if self._tend_at_ns <= now_ns or self._former:
            done += self._tend(now_ns)
        elif not self.line.calm:
            done += self._follow_line(now_ns)
        if session.told or session.refused or session.left:
            done += self._take_news(now_ns)
        if session.next_due_ns <= now_ns:
            done += session.on_tick(now_ns)
        if session.unsent:
            self._send(now_ns)
        if session.cancels:
            self._send_cancels()
        if session.wanting:
            self._send_credits()
        return done

    def send(self) -> None:
        """Send whatever can leave."""
        self._send(clock_ns())

    def _send(self, now_ns: int) -> None:
        session, line = self.session, self.line
        if self._idle:
            self._hurry(now_ns)
        while session.unsent and line.up:
            messages = session.next_to_send(now_ns, BATCH_MAX)
            sent = line.send(messages)
            session.on_sent(sent)
            if sent < len(messages):
                break

    def cancel(self, tokens: Set[object]) -> list[Done]:
        """Nobody wants the tasks with these tokens any more; returns those that were never sent, and have ended."""
        ended = self.session.cancel(tokens)
        self._send_cancels()
        return ended

    def _send_cancels(self) -> None:
        """Whoever does not take it now is told later; on a line that is lost, there is nobody to tell."""
        session, lines = self.session, self._lines_by_leg()
        for leg in list(session.cancels):
            line = lines.get(leg)
            if line is None:
                del session.cancels[leg]
                continue
            messages = session.take_cancels(leg)
            taken = line.send(messages)
            if taken < len(messages):
                session.cancels[leg] = [message[2] for message in messages[taken:]]

    def want(self, streams: Iterable[Streamed]) -> None:
        """Their readers have taken so many parts that their brokers should send more."""
        for each in streams:
            self.session.want(each)
        self._send_credits()

    def _send_credits(self) -> None:
        session, lines = self.session, self._lines_by_leg()
        for leg in list(session.wanting):
            wanting = session.wanting.pop(leg)
            line = lines.get(leg)
            if line is not None:
                taken = line.send([each.want() for each in wanting])
                if taken < len(wanting):
                    session.wanting[leg] = wanting[taken:]

    def _lines_by_leg(self) -> dict[int, Line]:
        return {self.session.leg: self.line} | {former.leg: former.line for former in self._former}

    def close(self) -> list[Done]:
        for line in self.lines:
            line.close()
        return self.session.close()

    # -- after a fork -------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        """In a child that was forked: the lines and what is open are the parent's alone."""
        for line in self.lines:
            line.abandon()

    def successor(self) -> Connection:
        """A connection of our own, after `abandon`, to the brokers that were known."""
        return Connection(self.brokers.given, self.brokers.known, token=self._token, admitted_by=self._pass)

    # -- from broker to broker ----------------------------------------------------------------------------------

    def _plan(self) -> None:
        """What `brokers` says changes seldom, and no task should pay for asking it."""
        brokers = self.brokers
        self._tend_at_ns = min([brokers.next_due_ns, *[line.due_ns for line in self.lines]])
        tried = brokers.tried
        if self.line.turned_away:
            tried += f"; the broker at {self.address} {turned_away(self._pass)}"
        self.session.on_brokers(len(brokers.known) > 1, tried, self.address)

    def _hurry(self, now_ns: int) -> None:
        """There are tasks again: a broker that does nothing must be noticed soon."""
        self._idle = False
        self.line.ask_every_ns = SOON_NS
        self.line.hurry(now_ns)
        self._tend_at_ns = min(self._tend_at_ns, self.line.due_ns)

    def _tend(self, now_ns: int) -> list[Done]:
        """What there is to do besides the tasks: look after the lines, ask for brokers, move on."""
        session = self.session
        self._idle = not len(session)
        self.line.ask_every_ns = SELDOM_NS if self._idle else SOON_NS
        if now_ns - self._tend_at_ns > PAUSE_NS:
            self.brokers.on_pause(now_ns)
        done = self._follow_line(now_ns)  # first, or we would leave a broker that has just come up
        if session.told or session.refused or session.left:
            done += self._take_news(now_ns)
        for former in list(self._former):
            done += self._follow_former(former, now_ns)
        if self.brokers.asks(now_ns):
            self.line.send([session.question()])
        self._move(now_ns)
        self._plan()
        return done

    def _follow_line(self, now_ns: int) -> list[Done]:
        """The tasks that ended because the connection was lost."""
        done: list[Done] = []
        changes = self.line.follow(now_ns)
        for change in changes:
            if change is Change.UP:
                self.brokers.on_up(now_ns)
                self.session.on_up(now_ns)
            else:
                done += self.session.on_lost(now_ns, self.session.leg)
                self.brokers.on_down(now_ns, silent=self.line.fell_silent)
        if changes or not self.line.up:
            self._plan()
        return done

    def _take_news(self, now_ns: int) -> list[Done]:
        """The broker told us of others, or takes no more tasks."""
        session, brokers = self.session, self.brokers
        done: list[Done] = []
        if session.told:
            if self._pass is not None:
                self._pass.learn(session.told)
            brokers.on_told(read_told(session.told, self.address))
            session.told = b""
        if session.left:
            session.left = 0
            self.line.hang_up(now_ns)
            done += self._follow_line(now_ns)
        if session.refused:
            brokers.on_refused(now_ns)
            done += session.send_again(now_ns) if self._move(now_ns) else session.pass_on(now_ns)
        self._plan()
        return done

    def _move(self, now_ns: int) -> bool:
        """Go to the next broker, if it is time and there is one."""
        while address := self.brokers.next(now_ns):
            try:
                line = self._line_to(address)
            except Exception:
                # Not an address, or no descriptor left for another line.
                self.brokers.on_unusable(now_ns, address)
                continue
            self._leave()
            line.ask_every_ns = SELDOM_NS if self._idle else SOON_NS
            self.line = line
            self.watch(line.fd)
            self.brokers.on_moved(now_ns, address)
            return True
        return False

    def _line_to(self, address: str) -> Line:
        return Line(address, asks=True, begin=begin_to(address, self._pass))

    def _leave(self) -> None:
        leg, owed = self.session.next_leg()
        if owed:
            self._former.append(Former(self.line, leg, owed))
        else:
            self._close(self.line)

    def _follow_former(self, former: Former, now_ns: int) -> list[Done]:
        session = self.session
        done: list[Done] = []
        while batch := former.line.recv():
            done += session.on_messages(batch, now_ns, former.leg)
        is_lost = Change.DOWN in former.line.follow(now_ns) or session.left or len(self._former) > FORMER_MAX
        session.left = 0
        done += session.send_again(now_ns)
        if is_lost:
            done += session.on_lost(now_ns, former.leg)
        if former.is_over(session):
            self._former.remove(former)
            self._close(former.line)
        return done

    def _close(self, line: Line) -> None:
        self.forget(line.fd)
        line.close()


def _nobody_minds(fd: int) -> None:
    pass


def _new_id() -> str:
    return str(uuid4())
