"""Letters between brokers: what is written can be read again, and nothing else can."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from famulus.core.config.sync import MESSAGE_BYTES_MAX
from famulus.errors import ProtocolError
from famulus.wire import limits, peers
from famulus.wire.peers import Beat, Config, Content, Join, Joined, Letter, Place, Refused, Slots, Work

CONTENTS: list[Content] = [
    Beat(
        12, "a" * 64, "active", {"echo": Work(3, 1, 0)}, Slots(3, 1), Place("h", 1, 2, 3, 4), "https://[fd00::1]:8400"
    ),
    Beat(0, "", "", {}),
    Config(b"\x93\xa7summary"),
    Config(b""),
    Join({"family": "a", "public_key": "ab" * 32, "frontend_port": 7100, "services": ["x"]}, "nonce", b"\x00" * 32),
    Joined("ab" * 32, "nonce", b"\xff" * 32),
    Refused("not_allowed: the secret is not that of this network"),
]
NETWORK = "ab" * 32


def letter(content: Content, **fields: Any) -> Letter:
    return Letter(**{"network": NETWORK, "sender": "b1", "boot": 1, "number": 2, "content": content, **fields})


@pytest.mark.parametrize("content", CONTENTS)
def test_what_is_written_can_be_read(content: Content) -> None:
    assert peers.read(peers.write(letter(content))) == letter(content)


def test_the_layout_that_others_rely_on() -> None:
    """One array, and what it brings with its name first: another program could write this."""
    written = msgspec.msgpack.decode(peers.write(letter(CONTENTS[0])))
    beat = ["beat", 12, "a" * 64, "active", {"echo": [3, 1, 0]}, [3, 1], ["h", 1, 2, 3, 4], "https://[fd00::1]:8400"]
    assert written == [NETWORK, "b1", 1, 2, beat]
    names = [msgspec.msgpack.decode(peers.write(letter(each)))[4][0] for each in CONTENTS]
    assert names == ["beat", "beat", "config", "config", "join", "joined", "refused"]


def test_a_newer_broker_may_say_more() -> None:
    longer = [NETWORK, "b1", 1, 2, ["beat", 12, "", "active", {}, [1, 2], None, "", "more"], "more"]
    assert peers.read(msgspec.msgpack.encode(longer)) == letter(Beat(12, "", "active", {}, Slots(1, 2)))


@pytest.mark.parametrize("address", ["javascript:alert(1)", "http://b2/path", "http://b2:1\n", "https://a b"])
def test_only_the_address_of_a_page_becomes_a_link(address: str) -> None:
    with pytest.raises(ProtocolError):
        peers.read(msgspec.msgpack.encode([NETWORK, "b1", 1, 2, ["beat", 12, "", "active", {}, None, None, address]]))


def test_an_older_broker_says_neither_its_slots_nor_its_place() -> None:
    shorter = [NETWORK, "b1", 1, 2, ["beat", 12, "", "active", {}]]
    assert peers.read(msgspec.msgpack.encode(shorter)) == letter(Beat(12, "", "active", {}, None, None))


@pytest.mark.parametrize(
    "content",
    [
        ["beat", -1, "", "active", {}],
        ["beat", limits.INTEGER_MAX + 1, "", "active", {}],
        ["beat", 1.5, "", "active", {}],
        ["beat", 1, "x" * 4097, "active", {}],
        ["beat", 1, "", "active", {"echo": [1, 2]}],
        ["beat", 1, "", "active", {"echo": [1, 2, -1]}],
        ["beat", 1, "", "active", {"": [1, 2, 3]}],
        ["beat", 1, "", "active", {}, [1, -1]],
        ["beat", 1, "", "active", {}, [1, 2], ["h", 0, 2, 3, 4]],
        ["beat", 1, "", "active", {}, [1, 2], ["h", 1, 2, 3, 65536]],
        ["beat", 1, "", "active", {}, [1, 2], ["h", 1, 2, 3]],
        ["beat", 1, "", "active", {"x" * 256: [1, 2, 3]}],
        ["beat", 1, "", "active", [1]],
        ["beat", 1, "", "active"],
        ["config", "text"],
        ["config"],
        ["join", [], "nonce", b""],
        ["join", {1: 2}, "nonce", b""],
        ["join", {}, "nonce", "text"],
        ["joined", 1, "nonce", b""],
        ["refused", b"bytes"],
        ["refused", "x" * 4097],
        ["other", 1],
        [],
        None,
        "beat",
    ],
)
def test_contents_that_cannot_be(content: Any) -> None:
    with pytest.raises(ProtocolError, match="bad_frames: not a letter"):
        peers.read(msgspec.msgpack.encode([NETWORK, "b1", 1, 2, content]))


@pytest.mark.parametrize(
    "fields",
    [
        {"network": "x" * 4097},
        {"network": 7},
        {"sender": ""},
        {"sender": "x" * 256},
        {"boot": -1},
        {"boot": limits.INTEGER_MAX + 1},
        {"number": -1},
        {"number": "1"},
    ],
)
def test_envelopes_that_cannot_be(fields: dict[str, Any]) -> None:
    with pytest.raises(ProtocolError, match="bad_frames"):
        peers.read(peers.write(letter(CONTENTS[1], **fields)))


def test_sizes_are_bounded() -> None:
    most = {f"s{number}": Work(1, 1, 1) for number in range(peers.SERVICES_MAX)}
    assert peers.read(peers.write(letter(Beat(1, "", "active", most)))).content == Beat(1, "", "active", most)
    with pytest.raises(ProtocolError, match="bad_frames"):
        peers.read(peers.write(letter(Beat(1, "", "active", most | {"more": Work(1, 1, 1)}))))
    with pytest.raises(ProtocolError, match="too_large"):
        peers.read(peers.write(letter(Config(b"x" * peers.LETTER_BYTES_MAX))))


def test_the_largest_message_about_the_config_fits_into_a_letter() -> None:
    config = Config(b"x" * MESSAGE_BYTES_MAX)
    whole = letter(config, sender="é" * 255)
    assert peers.read(peers.write(whole)) == whole


# -- anything at all ----------------------------------------------------------------------------------------------

text, octets = st.text(max_size=5), st.binary(max_size=5)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | text | octets,
    lambda inside: st.lists(inside, max_size=6) | st.dictionaries(text | st.integers(0, 9), inside, max_size=3),
    max_leaves=12,
)
tags = st.sampled_from(["beat", "config", "join", "joined", "refused"])
nearly = st.tuples(
    st.just(NETWORK) | values,
    st.just("b1") | values,
    st.just(1) | values,
    st.just(1) | values,
    st.tuples(tags, values, values, values, values) | values,
)


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A good letter until somebody cut it or hit a few bytes."""
    data = bytearray(peers.write(letter(draw(st.sampled_from(CONTENTS)))))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, len(data) - 1))
        data[at] = draw(st.integers(0, 255))
    return bytes(data[: draw(st.integers(0, len(data)))])


@settings(deadline=None)
@given(st.binary(max_size=100) | nearly.map(msgspec.msgpack.encode) | damaged())
def test_any_bytes_are_a_letter_or_a_typed_error(data: bytes) -> None:
    found, refused = None, None
    try:
        found = peers.read(data)
    except ProtocolError as error:
        refused = error
    if found is not None:
        written = peers.write(found)
        assert peers.write(peers.read(written)) == written
    else:
        assert refused is not None
        assert refused.code == "bad_frames"
        assert len(str(refused)) <= 2 * limits.REASON_CHARS_MAX


def test_nesting_without_end_is_a_typed_error() -> None:
    for deep in (b"\x91" * 100_000, b"\x81\xa0" * 100_000):
        head = b"\x95" + msgspec.msgpack.encode(NETWORK) + b"\xa2b1\x01\x01" + b"\x94\xa4join"
        with pytest.raises(ProtocolError, match="bad_frames"):
            peers.read(head + deep)
