"""How a connection begins: what we say, and what we make of what the other side says."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.wire import zmtp

NULL = b"NULL".ljust(20, b"\0")
READY = zmtp.command(b"READY", b"\x0bSocket-Type\0\0\0\x06ROUTER\x08Identity\0\0\0\0")


def greeting(version: int = 3, minor: int = 1, mechanism: bytes = NULL) -> bytes:
    return (b"\xff" + bytes(8) + b"\x7f" + bytes([version, minor]) + mechanism).ljust(64, b"\0")


def hear(said: bytes) -> bytes:
    """What is left of it when the other side is ready; raises what is wrong."""
    opening = zmtp.null_opening(b"DEALER")
    _, wanted = next(opening)
    while len(said) >= wanted:
        heard, said = said[:wanted], said[wanted:]
        try:
            _, wanted = opening.send(heard)
        except StopIteration:
            return said
    raise EOFError


def test_who_meets_himself_notices() -> None:
    with pytest.raises(zmtp.Foreign, match="DEALER"):
        hear(zmtp.opening(b"DEALER"))


@pytest.mark.parametrize("minor", [0, 1, 2])
def test_what_follows_is_not_taken(minor: int) -> None:
    assert hear(greeting(minor=minor) + READY + b"rest") == b"rest"


def test_a_long_ready() -> None:
    more = b"\x06X-More\0\0\x03\xe8" + b"x" * 1000
    assert hear(greeting() + zmtp.command(b"READY", more + b"\x0bsocket-TYPE\0\0\0\x06ROUTER") + b"rest") == b"rest"


@pytest.mark.parametrize(
    ("said", "what"),
    [
        (b"HTTP/1.1 400", "not speak ZeroMQ"),
        (greeting(version=2), "older"),
        (greeting(mechanism=b"CURVE".ljust(20, b"\0")), "mechanism"),
        (greeting() + b"\x00\x05hello", "not say READY"),
        (greeting() + zmtp.command(b"ERROR", b"\x03no!"), "ERROR"),
        (greeting() + zmtp.command(b"READY", b"\x0bSocket-Type\0\0\0\x03PUB"), "PUB"),
        (greeting() + zmtp.command(b"READY", b"\x0bSocket-Type\xff\xff\xff\xffROUTE"), "no ROUTER"),
        (greeting() + zmtp.command(b"READY", b"\xff"), "no ROUTER"),
        (greeting() + b"\x04\x00", "name"),
        (greeting() + b"\x04\x01\x00", "name"),
        (greeting() + b"\x04\x03\x05ab", "name"),
        (greeting() + b"\x06" + (2**63).to_bytes(8, "big"), "too long"),
    ],
)
def test_who_speaks_something_else_is_told_apart(said: bytes, what: str) -> None:
    with pytest.raises(zmtp.Foreign, match=what):
        hear(said)


@given(st.binary(max_size=200), st.booleans())
def test_whatever_comes_there_is_an_end(said: bytes, greeted: bool) -> None:
    with suppress(zmtp.Foreign, EOFError):
        hear(greeting() + said if greeted else said)


def test_a_ping_is_answered_with_its_context() -> None:
    assert zmtp.answer_to(b"\x04PING\x00\x0acontext") == b"\x04PONGcontext"
    assert zmtp.answer_to(zmtp.PING) == b"\x04PONG"
    assert len(zmtp.answer_to(b"\x04PING\0\0" + b"x" * 1000)) == 5 + 16


def test_other_commands_are_not_answered() -> None:
    assert zmtp.answer_to(b"\x04PONGcontext") == b""
    assert zmtp.answer_to(b"\x05HELLO") == b""
