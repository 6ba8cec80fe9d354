"""Ways to change what one side said before the other hears it."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from famulus.wire import zmtp

Pieces = list[bytes]
Change = Callable[[Random, Pieces, Pieces], Pieces]

#: No input is longer, whatever is repeated in it.
BYTES_MAX = 200_000


def _flip(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    """Some bits of one piece."""
    at = random.randrange(len(pieces))
    piece = bytearray(pieces[at])
    for _ in range(random.randint(1, 4) if piece else 0):
        piece[random.randrange(len(piece))] ^= 1 << random.randrange(8)
    return [*pieces[:at], bytes(piece), *pieces[at + 1 :]]


def _flip_edge(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    """One bit near the beginning or the end of a piece, where flags, lengths and numbers are."""
    at = random.randrange(len(pieces))
    piece = bytearray(pieces[at])
    if piece:
        place = random.randrange(min(len(piece), 20))
        piece[place if random.random() < 0.7 else -1 - place] ^= 1 << random.randrange(8)
    return [*pieces[:at], bytes(piece), *pieces[at + 1 :]]


def _cut_end(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    at = random.randrange(len(pieces))
    return [*pieces[:at], pieces[at][: random.randrange(len(pieces[at]) + 1)]]


def _cut_middle(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    at = random.randrange(len(pieces))
    piece = pieces[at]
    begin = random.randrange(len(piece) + 1)
    return [*pieces[:at], piece[:begin] + piece[begin + random.randint(1, 40) :], *pieces[at + 1 :]]


def _drop(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    at = random.randrange(len(pieces))
    return [*pieces[:at], *pieces[at + 1 :]]


def _repeat(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    piece, at = random.choice(pieces), random.randrange(len(pieces) + 1)
    return [*pieces[:at], *[piece] * random.randint(1, 3), *pieces[at:]]


def _swap(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    one, another = random.randrange(len(pieces)), random.randrange(len(pieces))
    swapped = list(pieces)
    swapped[one], swapped[another] = pieces[another], pieces[one]
    return swapped


def _insert(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    at = random.randrange(len(pieces) + 1)
    return [*pieces[:at], random.randbytes(random.randint(1, 100)), *pieces[at:]]


def _resize(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    """Another length than the content has, in one byte or in eight."""
    at = random.randrange(len(pieces))
    piece = pieces[at]
    size = random.choice([0, 1, len(piece) - 2, len(piece), 255, 256, 4096, 4097, 2**20, 2**31, 2**63, 2**64 - 1])
    if random.random() < 0.5:
        piece = piece[:1] + bytes([size & 255]) + piece[2:]
    else:
        flags = (piece[0] if piece else 0) | zmtp.LONG
        piece = bytes([flags]) + max(0, size).to_bytes(8, "big") + piece[2:]
    return [*pieces[:at], piece, *pieces[at + 1 :]]


def _splice(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    """A piece of what somebody else said, or said on another day."""
    at = random.randrange(len(pieces))
    return [*pieces[:at], random.choice(other), *pieces[at + 1 :]]


def _junk(random: Random, pieces: Pieces, other: Pieces) -> Pieces:
    """Nothing of it is left from some piece on."""
    at = random.randrange(len(pieces))
    return [*pieces[:at], random.randbytes(random.randrange(300))]


CHANGES: tuple[Change, ...] = (
    _flip,
    _flip,
    _flip_edge,
    _flip_edge,
    _cut_end,
    _cut_middle,
    _drop,
    _repeat,
    _swap,
    _insert,
    _resize,
    _splice,
    _junk,
)


def change(random: Random, pieces: Pieces, other: Pieces) -> bytes:
    """What is heard instead of these pieces. `other`: pieces of another connection, which anybody may have recorded."""
    changed = pieces
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        changed = random.choice(CHANGES)(random, changed, other) or [b""]
    return b"".join(changed)[:BYTES_MAX]
