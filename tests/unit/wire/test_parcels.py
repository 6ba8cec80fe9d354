"""A parcel is read as what was written into it, and anything else as nothing: never half, and never with an error."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.parcels import write

from famulus.wire import parcels
from famulus.wire.parcels import MESSAGES_MAX

HEAD = 7  # bytes before each message: the three lengths

message = st.tuples(st.binary(max_size=255), st.binary(max_size=300), st.binary(max_size=300)).map(list)
some_messages = st.lists(message, min_size=1, max_size=8)


@st.composite
def nearly_parcels(draw: st.DrawFn) -> bytes:
    """A parcel that was fine until somebody hit a byte, cut a piece out of it or put one in. Heads come every few
    bytes here, so that most of the hits change a length."""
    tiny = st.lists(st.binary(max_size=3), min_size=3, max_size=3)
    frame = bytearray(write(draw(st.lists(tiny, min_size=1, max_size=5))))
    at = draw(st.integers(0, len(frame) - 1))
    frame[at : at + draw(st.integers(0, 9))] = draw(st.binary(max_size=9))
    return bytes(frame)


@given(some_messages)
def test_what_was_written_is_read(messages: list[list[bytes]]) -> None:
    assert parcels.read(write(messages)) == messages


def test_the_layout_is_that_of_the_protocol() -> None:
    """Written out by hand: a writer and a reader that err in the same way would still agree with each other."""
    messages = [[b"e", b"head", b"body"], [b"", b"h" * 258, b"b" * 65537]]
    first = b"\x01" + b"\x00\x04" + b"\x00\x00\x00\x04" + b"e" + b"head" + b"body"
    second = b"\x00" + b"\x01\x02" + b"\x00\x01\x00\x01" + b"h" * 258 + b"b" * 65537
    assert write(messages) == b"\x01" + first + second
    assert parcels.read(b"\x01" + first + second) == messages


@given(st.binary() | st.binary().map(lambda rest: b"\x01" + rest) | nearly_parcels())
def test_anything_is_nothing_or_exactly_what_would_be_written_so(frame: bytes) -> None:
    messages = parcels.read(frame)
    assert messages == [] or write(messages) == frame


def test_a_parcel_cut_anywhere_is_nothing() -> None:
    """But between two messages nobody can see that there should be more."""
    messages = [[b"one", b"header", b"body"], [b"", b"", b""], [b"three", b"", b"x" * 40]]
    frame = write(messages)
    borders = {len(write(messages[:count])): messages[:count] for count in range(4)}
    for cut in range(len(frame) + 1):
        assert parcels.read(frame[:cut]) == borders.get(cut, []), cut


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x01", id="no message"),
        pytest.param(b"\x00" + bytes(HEAD), id="version 0"),
        pytest.param(b"\x02" + bytes(HEAD), id="version 2"),
        pytest.param(bytes(100_000), id="zeros"),
        pytest.param(b"\x01" + b"\xff" * HEAD, id="longer than any frame"),
        # These three lengths add up to 2 ** 32: they must not be added in 32 bits.
        pytest.param(b"\x01" + b"\x01\x00\x00\xff\xff\xff\xff" + b"x" * 50, id="sum of lengths overflows"),
        pytest.param(write([[b"e", b"h", b"b"]]) + b"\x00", id="one byte too many"),
        pytest.param(write([[b"e", b"h", b"b"]]) + bytes(HEAD - 1), id="most of a head too many"),
        pytest.param(write([[b"e", b"h", b"b"]]) + bytes(HEAD - 1) + b"\x01", id="a head and no message"),
        pytest.param(write([[b"", b"", b""]] * (MESSAGES_MAX + 1)), id="too many messages"),
    ],
)
def test_what_is_no_parcel_is_nothing(frame: bytes) -> None:
    assert parcels.read(frame) == []


def test_as_many_messages_as_may_be_are_read() -> None:
    messages = [[b"", b"", b"%d" % number] for number in range(MESSAGES_MAX)]
    assert parcels.read(write(messages)) == messages
