"""Who may join: whoever proves that it has the secret, and only under a name that is free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from famulus.core.steward.gate import JOINER, MEMBER, Gate, prove
from famulus.core.steward.post import Frames
from famulus.lab.sim.config.pen import Pen, broker_value, signer
from famulus.wire import peers
from famulus.wire.peers import Beat, Join, Joined, Letter, Refused

if TYPE_CHECKING:
    from tests.unit.core.steward.conftest import Network

SECRET = "the secret of the network"
ROOT = "the root's key"


class Door:
    """The gate of b1, and somebody who stands before it."""

    def __init__(self, network: Network, secret: str = SECRET) -> None:
        self.network = network
        self.core = network["b1"].core
        self.gate = Gate(self.core, secret, ROOT)

    def hears(self, frames: Frames, route: bytes = b"route") -> bool:
        return self.gate.on_letter(frames, route, self.network.now_ms)

    def asks(
        self, name: str = "b4", *, secret: str = SECRET, key: str = "", nonce: str = "once", **value: Any
    ) -> Frames:
        """A wish to join of a broker with this name."""
        pen = Pen(name, "")
        public = key or pen.public_key
        parts = (name.encode(), public.encode(), nonce.encode())
        join = Join(broker_value(pen, **{"public_key": public, **value}), nonce, prove(secret, JOINER, *parts))
        return signed(Letter("", name, 100, 1, join), public)

    def answer(self, frames: Frames) -> peers.Content:
        assert self.hears(frames)
        ((route, reply),) = self.core.letters.replies
        self.core.letters.replies.clear()
        assert route == b"route"
        letter = peers.read(reply[0])
        assert letter.sender == "b1"
        return letter.content

    def refusal(self, frames: Frames) -> str:
        """The reason, after a look that nothing has changed."""
        before = self.core.edits.digest
        self.gate.refused.clear()
        answer = self.answer(frames)
        assert isinstance(answer, Refused)
        assert self.gate.refused == [b"route"]
        assert self.core.edits.digest == before
        return answer.reason


def signed(letter: Letter, key: str) -> Frames:
    data = peers.write(letter)
    return [data, signer(key)(peers.SIGNED_AS + data)]


@pytest.fixture
def door(network: Network) -> Door:
    return Door(network)


def test_who_has_the_secret_is_made_known(door: Door) -> None:
    answer = door.answer(door.asks())
    assert isinstance(answer, Joined)
    assert (answer.root, answer.nonce) == (ROOT, "once")
    assert door.gate.refused == []
    config = door.core.config
    assert config.brokers["b4"].public_key == Pen("b4", "").public_key
    assert config.broker_states["b4"] == "active"
    assert "b4" in door.core.peers
    keys = {signed.edit.key for signed in door.core.take_unlogged()}
    assert keys == {"broker/b4", "broker_state/b4"}, "what the shell must write before it sends the answer"


def test_the_network_proves_that_it_has_the_secret_too(door: Door) -> None:
    answer = door.answer(door.asks())
    assert isinstance(answer, Joined)
    parts = (b"b4", Pen("b4", "").public_key.encode(), b"once")
    assert answer.proof == prove(SECRET, MEMBER, ROOT.encode(), *parts)
    assert answer.proof != prove(SECRET, JOINER, *parts), "its own proof sent back would not convince the newcomer"


def test_whoever_joins_can_speak_with_all_members(door: Door) -> None:
    door.answer(door.asks())
    door.network.settle()
    beat = Letter(door.network.id, "b4", 200, 1, Beat(1, "", "active", {}))
    for member in door.network.members.values():
        member.hears(signed(beat, Pen("b4", "").public_key))
        assert member.alive() == ["b4"]


def test_a_family_that_nobody_knows_is_made(door: Door) -> None:
    door.answer(door.asks(family="new"))
    assert "new" in door.core.config.families
    assert not door.core.config.warnings
    before = door.core.edits.heads("family/a")
    door.answer(door.asks("b5", family="a"))
    assert door.core.edits.heads("family/a") == before


def test_a_wrong_secret_is_refused(door: Door) -> None:
    assert door.refusal(door.asks(secret="a guess")).startswith("not_allowed: the secret")
    assert door.refusal(door.asks(secret="")).startswith("not_allowed: the secret")


def test_without_a_secret_nobody_can_join(network: Network) -> None:
    door = Door(network, secret="")
    assert door.refusal(door.asks(secret="")).startswith("not_allowed")


def test_a_proof_is_good_for_one_name_key_and_nonce(door: Door) -> None:
    join = peers.read(door.asks()[0]).content
    assert isinstance(join, Join)
    key = Pen("b4", "").public_key
    others = [
        signed(Letter("", "b5", 100, 1, join), key),
        signed(Letter("", "b4", 100, 1, Join(join.value, "another", join.proof)), key),
        signed(Letter("", "b4", 100, 1, Join(join.value | {"public_key": "thief"}, join.nonce, join.proof)), "thief"),
        signed(Letter("", "b4", 100, 1, Join(join.value, join.nonce, b"")), key),
        signed(Letter("", "b4", 100, 1, Join(join.value, join.nonce, prove(SECRET, MEMBER, ROOT.encode()))), key),
    ]
    for frames in others:
        assert door.refusal(frames).startswith("not_allowed")


def test_a_wish_that_somebody_else_signed_is_refused(door: Door) -> None:
    data, _ = door.asks()
    assert door.refusal([data, signer("thief")(peers.SIGNED_AS + data)]).startswith("not_allowed")


def test_the_name_of_a_broker_with_another_key_is_refused(door: Door) -> None:
    assert door.refusal(door.asks("b2", key="thief")).startswith("conflict: there is a broker 'b2'")
    assert door.refusal(door.asks("b1", key="thief")).startswith("conflict")


def test_after_that_the_peer_of_that_name_is_still_heard(door: Door) -> None:
    join = peers.read(door.asks("b2", key="thief")[0]).content
    door.refusal(signed(Letter("", "b2", 2**53 - 1, 2**53 - 1, join), "thief"))
    door.network.later(1000)
    assert door.network["b1"].alive() == ["b2", "b3"]


def test_a_disabled_broker_lets_nobody_in(door: Door) -> None:
    door.network["b2"].edits("broker_state/b1", {"state": "disabled"})
    door.network.settle()
    assert door.refusal(door.asks()).startswith("disabled: ")


@pytest.mark.parametrize(
    "value",
    [
        {"family": 7},
        {"host": ""},
        {"frontend_port": 0},
        {"peer_port": "seven"},
        {"services": [""]},
        {"family": "a\nb"},
    ],
)
def test_a_place_that_cannot_be_is_refused_in_words(door: Door, value: dict[str, Any]) -> None:
    reason = door.refusal(door.asks(**value))
    assert reason.startswith("bad_header: ")
    assert next(iter(value)) in reason


@pytest.mark.parametrize(
    "value", [{"more": "x" * 70_000}, {"more": b"bytes"}, {"more": 2**60}, {"more": [[[[[[[[[1]]]]]]]]]}]
)
def test_what_no_edit_can_hold_is_refused(door: Door, value: dict[str, Any]) -> None:
    assert door.refusal(door.asks(**value)).partition(":")[0] in ("bad_edit", "too_large", "bad_header")


@pytest.mark.parametrize("name", ["b\n4", "x" * 255])
def test_names_at_the_edge_are_taken_or_refused(door: Door, name: str) -> None:
    answer = door.answer(door.asks(name, host="here"))
    assert isinstance(answer, Refused if "\n" in name else Joined)


# -- once more ----------------------------------------------------------------------------------------------------


def test_the_same_wish_once_more_gets_the_same_answer_and_changes_nothing(door: Door) -> None:
    """Its sender heard nothing the first time."""
    first = door.answer(door.asks())
    digest = door.core.edits.digest
    assert door.answer(door.asks()) == first
    assert door.core.edits.digest == digest


def test_a_wish_of_a_known_broker_with_its_key_is_granted_and_changes_nothing(door: Door) -> None:
    door.answer(door.asks())
    digest = door.core.edits.digest
    assert isinstance(door.answer(door.asks(nonce="twice")), Joined)
    assert door.core.edits.digest == digest


def test_an_old_wish_does_not_undo_what_an_admin_did_since(door: Door) -> None:
    """Whoever listens on the way could send it again, years later."""
    wish = door.asks()
    door.answer(wish)
    b1 = door.network["b1"]
    moved = broker_value(Pen("b4", ""), host="elsewhere")
    b1.edits("broker/b4", moved)
    b1.edits("broker_state/b4", {"state": "disabled"})
    digest = door.core.edits.digest
    assert isinstance(door.answer(wish), Joined)
    assert door.core.edits.digest == digest


def test_an_old_wish_does_not_bring_back_a_broker_that_was_removed(door: Door) -> None:
    wish = door.asks()
    door.answer(wish)
    door.network["b1"].edits("broker/b4", None)
    assert door.refusal(wish).startswith("conflict: ")
    # With a new key it may come back: only somebody with the secret can have made that wish.
    assert isinstance(door.answer(door.asks(key="ab" * 32)), Joined)
    assert door.core.config.brokers["b4"].public_key == "ab" * 32


# -- what is not for the gate -------------------------------------------------------------------------------------


def test_letters_that_are_no_wish_to_join_are_left_to_the_steward(door: Door) -> None:
    post = door.network["b2"].core.post
    letters = [
        post.write(Beat(1, "", "active", {})),
        post.write(Joined("", "", b"")),
        [],
        [b""],
        [b"rubbish", b""],
        [*door.asks(), b"more"],
    ]
    for frames in letters:
        assert not door.hears(frames)
    assert door.core.letters.replies == []


def test_the_answer_is_cut_to_what_a_letter_holds(door: Door) -> None:
    fields: dict[str, Any] = {f"unknown-{number}-{'x' * 200}": 1 for number in range(100)}
    reason = door.refusal(door.asks(frontend_port=0, **fields))
    assert len(reason) <= 1000


# -- by a key that an admin trusts --------------------------------------------------------------------------------


def without_secret(name: str = "b4", signed_by: str = "", **value: Any) -> Frames:
    pen = Pen(name, "")
    join = Join(broker_value(pen, **value), "once", b"")
    return signed(Letter("", name, 100, 1, join), signed_by or pen.public_key)


@pytest.fixture
def trusting(network: Network) -> Door:
    """The gate of a network that trusts the key of b4; the broker need not have the secret itself."""
    network["b1"].edits(f"trusted_key/{Pen('b4', '').public_key}", {"family": "a", "identity": "b4"})
    return Door(network, secret="")


def test_a_broker_with_a_trusted_key_needs_no_secret(trusting: Door) -> None:
    answer = trusting.answer(without_secret())
    assert answer == Joined(ROOT, "once", b"")
    assert trusting.core.config.brokers["b4"].public_key == Pen("b4", "").public_key
    assert trusting.core.config.broker_states["b4"] == "active"


def test_a_key_that_nobody_trusts_is_refused_with_the_remedy(network: Network) -> None:
    why = Door(network).refusal(without_secret("b5"))
    assert why == (
        "not_allowed: the broker's key is not trusted here; an admin has to say so first: "
        f"famulus broker-admin trust {Pen('b5', '').public_key}"
    )


def test_a_trusted_key_is_good_for_its_owner_only(trusting: Door) -> None:
    assert "signature" in trusting.refusal(without_secret(signed_by="somebody else's key"))


def test_a_trusted_key_is_good_for_its_name_and_family_only(trusting: Door) -> None:
    key = Pen("b4", "").public_key
    assert "for broker 'b4'" in trusting.refusal(without_secret("b5", key, public_key=key))
    assert "for family 'a'" in trusting.refusal(without_secret(family="b"))


def test_a_key_that_is_trusted_no_longer_is_refused(trusting: Door) -> None:
    trusting.network["b1"].edits(f"trusted_key/{Pen('b4', '').public_key}", None)
    assert "not trusted here" in trusting.refusal(without_secret())


def test_a_broker_without_the_secret_sends_those_who_prove_it_elsewhere(trusting: Door) -> None:
    assert "ask another one" in trusting.refusal(trusting.asks("b5"))
