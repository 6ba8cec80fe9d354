"""Decides which letters of peers are genuine, and writes our own. Keys and signatures are passed in as functions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from famulus.core.config.edit_set import Verify
from famulus.errors import ProtocolError
from famulus.wire import peers, reasons

Frames = list[bytes]

#: Letters of one sender come over several connections, and so may overtake each other: by at most this many.
WINDOW: Final = 1024


@dataclass(frozen=True)
class Identity:
    """Who we are among the brokers of a network."""

    network: str
    name: str
    public_key: str
    sign: Callable[[bytes], bytes]
    #: See `next_boot`.
    boot: int


@dataclass(slots=True)
class Letters:
    """Letters to be sent."""

    #: Over our own connection to that peer.
    to_peers: list[tuple[str, Frames]] = field(default_factory=list)
    #: To whoever wrote to us over that connection.
    replies: list[tuple[bytes, Frames]] = field(default_factory=list)
    to_publish: list[Frames] = field(default_factory=list)


def next_boot(last: int, now_ms: int) -> int:
    """The number of a start, larger than that of any start before: it shows that our letters are new.

    It is the wall-clock time, unless that was set back: otherwise peers would take all our letters for old ones.
    """
    return max(last + 1, now_ms)


class Post:
    def __init__(self, me: Identity, verify: Verify) -> None:
        self._me = me
        self._verify = verify
        self._number = 0
        #: By sender.
        self._seen: dict[str, _LettersSeen] = {}

    def write(self, content: peers.Content) -> Frames:
        self._number += 1
        me = self._me
        data = peers.write(peers.Letter(me.network, me.name, me.boot, self._number, content))
        return [data, me.sign(peers.SIGNED_AS + data)]

    def read(self, frames: Frames, key_of: Callable[[str], str]) -> peers.Letter:
        """A letter that is new, for this network, and signed by its sender; or a ProtocolError.

        `key_of` gives the public key of a sender, or an empty one if it is not known. A Join brings its own.
        """
        if len(frames) != 2:
            raise ProtocolError(reasons.BAD_FRAMES, "a letter is [letter][signature]")
        data, signature = frames
        letter = peers.read(data)
        joining = isinstance(letter.content, peers.Join | peers.Joined | peers.Refused)
        if letter.network != self._me.network and not joining:
            raise ProtocolError(reasons.NOT_ALLOWED, "this is another network")
        if letter.sender == self._me.name:
            raise ProtocolError(reasons.CONFLICT, "another broker has our name")
        public_key = key_of(letter.sender) or (_brought_key(letter.content) if joining else "")
        if not public_key or not self._verify(public_key, peers.SIGNED_AS + data, signature):
            raise ProtocolError(reasons.NOT_ALLOWED, f"the signature is not that of {letter.sender!r}"[:200])
        # A request to join may come again, and proves nothing about its sender: anybody without a key yet can use any
        # name.
        if not isinstance(letter.content, peers.Join) and not self._is_new(letter):
            raise ProtocolError(reasons.EXPIRED, "this letter was received before")
        return letter

    def _is_new(self, letter: peers.Letter) -> bool:
        return self._seen.setdefault(letter.sender, _LettersSeen()).add(letter.boot, letter.number)

    def forget(self, known: set[str]) -> None:
        """Only these are worth remembering."""
        self._seen = {sender: seen for sender, seen in self._seen.items() if sender in known}


class _LettersSeen:
    """Which letters of one sender we have had: the latest one of its present life, and those shortly before."""

    def __init__(self) -> None:
        self._boot = -1
        self._last = 0
        #: Bit n stands for the letter n before the last one.
        self._before = 0

    def add(self, boot: int, number: int) -> bool:
        """False if we have had it, or if it is too old to tell."""
        if boot > self._boot:
            self._boot, self._last, self._before = boot, number, 1
            return True
        ahead = number - self._last
        if boot < self._boot or ahead <= -WINDOW or (ahead <= 0 and self._before >> -ahead & 1):
            return False
        if ahead > 0:
            self._last = number
            self._before = self._before << ahead & (1 << WINDOW) - 1 if ahead < WINDOW else 0
            ahead = 0
        self._before |= 1 << -ahead
        return True


def _brought_key(content: peers.Content) -> str:
    key = content.value.get("public_key") if isinstance(content, peers.Join) else None
    return key if isinstance(key, str) else ""
