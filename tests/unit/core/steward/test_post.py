"""Which letters of peers are believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from famulus.core.steward.post import Identity, Post, next_boot
from famulus.errors import ProtocolError
from famulus.lab.sim.config.pen import signer, verify
from famulus.wire import peers
from famulus.wire.peers import Beat, Config, Join, Joined, Letter, Refused

NETWORK = "ab" * 32
KEYS = {name: f"key-of-{name}" for name in ("b1", "b2", "stranger")}
BEAT = Beat(1, "digest", "active", {})


def post_of(name: str, *, boot: int = 100, network: str = NETWORK) -> Post:
    return Post(Identity(network, name, KEYS[name], signer(KEYS[name]), boot), verify)


def key_of(name: str) -> str:
    """b1 knows b2, and nobody else."""
    return KEYS[name] if name in ("b1", "b2") else ""


def written(*, sender: str = "b2", number: int = 1, signed_by: str = "b2", **fields: Any) -> list[bytes]:
    """A letter as nobody's post would write it."""
    whole = Letter(**{"network": NETWORK, "sender": sender, "boot": 100, "number": number, "content": BEAT, **fields})
    data = peers.write(whole)
    return [data, signer(KEYS[signed_by])(peers.SIGNED_AS + data)]


@pytest.fixture
def refusal() -> Callable[..., str]:
    """The code with which b1 refuses a letter."""

    def read(frames: list[bytes], post: Post | None = None) -> str:
        with pytest.raises(ProtocolError) as caught:
            (post or post_of("b1")).read(frames, key_of)
        return caught.value.code

    return read


Refusal = Callable[..., str]


def test_a_letter_of_a_peer_is_read() -> None:
    letter = post_of("b1").read(post_of("b2").write(BEAT), key_of)
    assert letter == Letter(NETWORK, "b2", 100, 1, BEAT)


def test_letters_are_numbered() -> None:
    reader, writer = post_of("b1"), post_of("b2")
    assert [reader.read(writer.write(BEAT), key_of).number for _ in range(3)] == [1, 2, 3]


def test_a_signature_of_somebody_else_is_refused(refusal: Refusal) -> None:
    assert refusal(written(signed_by="stranger")) == "not_allowed"


def test_a_changed_letter_is_refused(refusal: Refusal) -> None:
    data, signature = written()
    for at in range(len(data)):
        changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        assert refusal([changed, signature]) in ("not_allowed", "bad_frames", "conflict")
    assert refusal([data, signature[:-1]]) == "not_allowed"
    assert refusal([data, b""]) == "not_allowed"


def test_a_signature_under_something_else_is_none(refusal: Refusal) -> None:
    """An edit of a broker is signed with the same key, and must not pass for a letter."""
    data, _ = written()
    assert refusal([data, signer(KEYS["b2"])(data)]) == "not_allowed"
    assert refusal([data, signer(KEYS["b2"])(b"famulus edit 1\n" + data)]) == "not_allowed"


def test_a_sender_that_nobody_knows_is_refused(refusal: Refusal) -> None:
    assert refusal(written(sender="stranger", signed_by="stranger")) == "not_allowed"


def test_another_network_is_refused(refusal: Refusal) -> None:
    assert refusal(post_of("b2", network="cd" * 32).write(BEAT)) == "not_allowed"


def test_our_own_name_is_refused(refusal: Refusal) -> None:
    """A copy of us, or what we said ourselves and somebody sends back."""
    assert refusal(post_of("b1").write(BEAT)) == "conflict"


@pytest.mark.parametrize("count", [0, 1, 3])
def test_a_letter_has_two_frames(refusal: Refusal, count: int) -> None:
    assert refusal([*written(), b"more"][:count]) == "bad_frames"


# -- old letters --------------------------------------------------------------------------------------------------


def test_a_letter_counts_once(refusal: Refusal) -> None:
    reader, letter = post_of("b1"), post_of("b2").write(BEAT)
    reader.read(letter, key_of)
    assert refusal(letter, reader) == "expired"
    assert refusal(letter, reader) == "expired"


def test_letters_that_overtake_each_other_all_count_once(refusal: Refusal) -> None:
    """They come over several connections: a publication may be faster than an answer that was written before."""
    reader, writer = post_of("b1"), post_of("b2")
    letters = [writer.write(BEAT) for _ in range(5)]
    order = [3, 0, 4, 2, 1]
    assert [reader.read(letters[at], key_of).number for at in order] == [at + 1 for at in order]
    assert {refusal(letter, reader) for letter in letters} == {"expired"}


def test_what_is_long_overtaken_is_refused_unseen(refusal: Refusal) -> None:
    """Who it was is forgotten some day, and then an old letter is taken for a repeated one."""
    reader, writer = post_of("b1"), post_of("b2")
    late = writer.write(BEAT)
    for _ in range(5000):
        last = writer.write(BEAT)
    reader.read(last, key_of)
    assert refusal(late, reader) == "expired"


def test_a_leap_in_the_numbers_costs_nothing(refusal: Refusal) -> None:
    """A peer that was broken into may number its letters as it likes."""
    reader = post_of("b1")
    for number in (1, 2**40, 2**53 - 1):
        assert reader.read(written(number=number), key_of).number == number
    assert refusal(written(number=2**40), reader) == "expired"


def test_letters_of_a_former_life_are_refused(refusal: Refusal) -> None:
    reader = post_of("b1")
    former = post_of("b2", boot=100)
    old = [former.write(BEAT) for _ in range(3)]
    reader.read(old[0], key_of)
    reader.read(post_of("b2", boot=101).write(BEAT), key_of)
    assert refusal(old[1], reader) == "expired"
    assert refusal(former.write(BEAT), reader) == "expired"


def test_a_new_life_begins_with_one_again() -> None:
    reader, former = post_of("b1"), post_of("b2", boot=100)
    for _ in range(3):
        reader.read(former.write(BEAT), key_of)
    assert reader.read(post_of("b2", boot=101).write(BEAT), key_of).number == 1


def test_a_refused_letter_does_not_count_as_seen() -> None:
    """Otherwise whoever can send us something could make us deaf for a peer."""
    reader = post_of("b1")
    with pytest.raises(ProtocolError):
        reader.read(written(number=2**53 - 1, signed_by="stranger"), key_of)
    assert reader.read(written(), key_of).number == 1


def test_what_is_forgotten_may_come_again() -> None:
    """Who is not a peer any more needs no memory; and if it comes back, its letters must be newer than its key."""
    reader, letter = post_of("b1"), post_of("b2").write(BEAT)
    reader.read(letter, key_of)
    reader.forget({"b2"})
    with pytest.raises(ProtocolError):
        reader.read(letter, key_of)
    reader.forget(set())
    reader.read(letter, key_of)


# -- wishes to join -----------------------------------------------------------------------------------------------


def wish(key: object = KEYS["stranger"]) -> Join:
    return Join({"public_key": key}, "nonce", b"proof")


def test_a_wish_to_join_brings_its_own_key_and_needs_no_network() -> None:
    letter = post_of("stranger", network="").write(wish())
    assert post_of("b1").read(letter, key_of).content == wish()


@pytest.mark.parametrize("key", ["", "another", 7, None, ["key-of-stranger"]])
def test_a_wish_to_join_is_signed_with_the_key_that_it_brings(refusal: Refusal, key: object) -> None:
    assert refusal(post_of("stranger", network="").write(wish(key))) == "not_allowed"


def test_of_a_peer_a_wish_to_join_is_signed_with_its_known_key(refusal: Refusal) -> None:
    assert refusal(written(signed_by="stranger", content=wish())) == "not_allowed"


def test_nobody_can_join_into_the_place_of_a_peer() -> None:
    """A wish with a peer's name, a key of one's own and the highest number must not make us deaf for that peer."""
    reader = post_of("b1")
    frames = written(signed_by="stranger", content=wish(), boot=2**53 - 1, number=2**53 - 1)
    assert reader.read(frames, lambda _: "").sender == "b2"
    assert reader.read(written(), key_of).content == BEAT


def test_asking_twice_to_join_is_no_repetition() -> None:
    """Who hears nothing asks again with the same letter; the gate gives the same answer."""
    reader, letter = post_of("b1"), post_of("stranger", network="").write(wish())
    assert reader.read(letter, key_of) == reader.read(letter, key_of)


@pytest.mark.parametrize("content", [Joined("root", "nonce", b""), Refused("why"), Config(b"")])
def test_only_wishes_to_join_come_from_strangers(refusal: Refusal, content: peers.Content) -> None:
    assert refusal(written(sender="stranger", signed_by="stranger", content=content)) == "not_allowed"


# -- anything at all ----------------------------------------------------------------------------------------------


some_contents: list[Any] = [["beat", 1, "", "x", {}], ["join", {"public_key": "k"}, "", b""], ["config", b"x"], [], 7]
nearly = st.tuples(
    st.sampled_from([NETWORK, "", "other"]),
    st.sampled_from(["b1", "b2", "stranger", "é", ""]),
    st.integers(-1, 2**53),
    st.integers(-1, 2**53),
    st.sampled_from(some_contents),
)


@settings(deadline=None)
@given(
    st.lists(st.binary(max_size=60), max_size=4)
    | st.tuples(nearly.map(msgspec.msgpack.encode), st.binary(max_size=70)).map(list)
)
def test_any_frames_are_refused_in_type(frames: list[bytes]) -> None:
    with pytest.raises(ProtocolError):
        post_of("b1").read(frames, key_of)


def test_who_starts_after_its_clock_was_set_back_is_heard_all_the_same() -> None:
    reader, boot = post_of("b1"), 1_800_000_000_000
    reader.read(post_of("b2", boot=boot).write(BEAT), key_of)
    again = next_boot(boot, now_ms=boot - 3_600_000)
    assert reader.read(post_of("b2", boot=again).write(BEAT), key_of).boot == again


def test_a_start_has_the_time_of_the_clock_on_the_wall_if_that_is_right() -> None:
    assert next_boot(100, now_ms=200) == 200
    assert next_boot(0, now_ms=200) == 200
