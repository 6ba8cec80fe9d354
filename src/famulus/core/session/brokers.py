"""Decides which broker a client is connected to, and when it moves on. Uses no socket and no clock.

A client is with one broker at a time, and has two reasons to leave it: it is not there, or it takes no more tasks.

down    for longer than a moment; a restart, or a connection that is only slow, deserves that much
rests   said `disabled`, or cannot be connected to at all: not tried for a second or so

The next one is the first known broker that was not tried since the client last had one: those that were given, then
those that a broker told it about, best first. When all were tried, the next round begins, in which each gets more time;
so a network that is slow is no worse than one that is down. If there is nowhere else to go, it stays.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

import msgspec

from famulus.core.backoff import Backoff
from famulus.core.clock import NEVER_NS, NS_PER_MS, NS_PER_S

#: How long a broker may be away, or take to appear: between these two, so that not all who lost it move at once.
PATIENCE_NS = (250 * NS_PER_MS, 350 * NS_PER_MS)
#: What each gets on top of that after a round without a broker: doubling, bounded, with jitter.
SLACK_NS = (300 * NS_PER_MS, 2 * NS_PER_S)
#: Short: brokers that are restarted in turn are back within seconds, and then the next one says `disabled`.
REST_NS = (1000 * NS_PER_MS, 1500 * NS_PER_MS)
ASK_EVERY_NS = (9 * NS_PER_S, 11 * NS_PER_S)
#: One that refuses tasks is asked at most this often: it may have learned in the meantime who takes them.
ASK_AGAIN_NS = 250 * NS_PER_MS

#: Brokers that are remembered in addition to those that were given.
TOLD_MAX = 16
#: A larger answer is not looked at.
TOLD_BYTES_MAX = 64 * 1024
#: A sentence for people names this many, and counts the others.
NAMED_MAX = 8

_ADDRESS = re.compile(r"tcp://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):([0-9]{1,5})")
#: A broker may listen on these, but they are no addresses to connect to.
_NOWHERE = frozenset({"0.0.0.0", "[::]"})


class Brokers:
    def __init__(self, now_ns: int, given: Sequence[str], chance: Callable[[], float]) -> None:
        """The first one given is the first to be tried, starting now."""
        self.given = tuple(given)
        self._told: tuple[str, ...] = ()
        self._chance = chance
        self._backoff = Backoff(*SLACK_NS, chance)
        #: Where we are, or are trying to be.
        self.address = self.given[0]
        #: This round: since we last had a broker, or since all others were tried.
        self._tried: dict[str, None] = {self.address: None}
        self._rounds = 0
        self._slack_ns = 0
        self._rests_until_ns: dict[str, int] = {}
        self._ask_at_ns = NEVER_NS
        self._asked_ns = 0
        self._leave_at_ns = now_ns + self._about(PATIENCE_NS)
        self._excused = False

    # -- what we know -------------------------------------------------------------------------------------------

    @property
    def known(self) -> list[str]:
        return list(dict.fromkeys((*self.given, *self._told)))

    @property
    def tried(self) -> str:
        """Where we have looked for a broker since we last had one, for people."""
        tried = self.known if self._rounds else list(self._tried)
        more = f" and {len(tried) - NAMED_MAX} more" if len(tried) > NAMED_MAX else ""
        return ", ".join(tried[:NAMED_MAX]) + more

    def on_told(self, addresses: Iterable[str]) -> None:
        """What a broker answered to NEEDBROKER. Older ones are kept after these: a lost family may come back."""
        self._told = tuple(dict.fromkeys((*addresses, *self._told)))[:TOLD_MAX]

    # -- what happens to the broker that we are with ------------------------------------------------------------

    def on_up(self, now_ns: int) -> None:
        self._tried = {self.address: None}
        self._rounds = self._slack_ns = 0
        self._backoff.reset()
        self._rests_until_ns.pop(self.address, None)
        self._ask_at_ns = now_ns
        self._leave_at_ns = NEVER_NS

    def on_down(self, now_ns: int, *, silent: bool = False) -> None:
        """`silent`: it did not answer for so long that it was given up. It has had its time."""
        self._ask_at_ns = NEVER_NS
        self._leave_at_ns = now_ns + (0 if silent else self._about(PATIENCE_NS))
        self._excused = silent

    def on_pause(self, now_ns: int) -> None:
        """We could not hear anybody for a while: its time starts again, once only, since we may never get faster."""
        if self._leave_at_ns < NEVER_NS and not self._excused:
            self._excused = True
            self._leave_at_ns = max(self._leave_at_ns, now_ns + self._about(PATIENCE_NS))

    def on_refused(self, now_ns: int) -> None:
        """It takes no more tasks."""
        self.on_unusable(now_ns, self.address)
        self._leave_at_ns = now_ns
        self._ask_at_ns = min(self._ask_at_ns, self._asked_ns + ASK_AGAIN_NS)

    # -- what is to be done -------------------------------------------------------------------------------------

    @property
    def next_due_ns(self) -> int:
        free_at_ns = [self._rests_until_ns.get(each, 0) for each in self.known if each != self.address]
        if not free_at_ns:
            return self._ask_at_ns
        return min(self._ask_at_ns, max(self._leave_at_ns, min(free_at_ns)))

    def asks(self, now_ns: int) -> bool:
        """Whether to ask the broker for others now."""
        if self._ask_at_ns > now_ns:
            return False
        self._asked_ns = now_ns
        self._ask_at_ns = now_ns + self._about(ASK_EVERY_NS)
        return True

    def next(self, now_ns: int) -> str:
        """Where to go now; empty if there is no reason to go, or nowhere to go to."""
        if self._leave_at_ns > now_ns:
            return ""
        free = [each for each in self.known if each != self.address and self._rests_until_ns.get(each, 0) <= now_ns]
        return next((each for each in free if each not in self._tried), free[0] if free else "")

    def on_moved(self, now_ns: int, address: str) -> None:
        if address in self._tried:
            self._tried.clear()
            self._rounds += 1
            self._slack_ns = self._backoff.next_ns()
        self.address = address
        self._tried[address] = None
        self._ask_at_ns = NEVER_NS
        self._leave_at_ns = now_ns + self._about(PATIENCE_NS) + self._slack_ns
        self._excused = False

    def on_unusable(self, now_ns: int, address: str) -> None:
        """Not even a socket can be made for it, or it takes no tasks: leave it alone for a while."""
        resting = {each: until_ns for each, until_ns in self._rests_until_ns.items() if until_ns > now_ns}
        self._rests_until_ns = {**resting, address: now_ns + self._about(REST_NS)}

    def _about(self, between_ns: tuple[int, int]) -> int:
        least, most = between_ns
        return least + int(self._chance() * (most - least))


class _Broker(msgspec.Struct):
    frontend: str


class _Told(msgspec.Struct):
    brokers: list[_Broker]


_decode = msgspec.json.Decoder(_Told).decode


def read_told(body: bytes, teller: str) -> list[str]:
    """The frontends in an answer to NEEDBROKER from the broker at that address; none if it is not such an answer."""
    if len(body) > TOLD_BYTES_MAX:
        return []
    try:
        brokers = _decode(body).brokers
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return []
    can_be = [each.frontend for each in brokers if _can_be(each.frontend)]
    # A local address of the broker is on its machine, not ours, unless we reach it on ours.
    here = _is_local(teller)
    return [each for each in can_be if here or not _is_local(each)][:TOLD_MAX]


def _can_be(address: str) -> bool:
    match = _ADDRESS.fullmatch(address)
    return match is not None and match[1] not in _NOWHERE and 0 < int(match[2]) <= 65535


def _is_local(address: str) -> bool:
    return re.match(r"tcp://(127\.|localhost:|\[::1\])|ipc:|inproc:", address) is not None
