"""How two brokers come to hold the same edits, whatever happens to their messages."""

from __future__ import annotations

from collections.abc import Callable
from hashlib import sha256
from random import Random
from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from famulus.core.config import sync
from famulus.core.config.buckets import BUCKETS
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.core.config.sync import Edits, Ids, Message, Summary, Want
from famulus.errors import ProtocolError
from famulus.lab.sim.config.pen import verify

if TYPE_CHECKING:
    from tests.unit.core.config.conftest import Network

A, B = "a" * 64, "b" * 64


def known(network: Network, *more: SignedEdit) -> EditSet:
    """A broker that knows the brokers and these edits."""
    edits = EditSet(network.id, verify)
    edits.add([signed for signed in network.edits if signed.edit.key.startswith("broker/")])
    assert not edits.add(more).waiting
    return edits


def ids_of(*edits: SignedEdit) -> list[bytes]:
    return [bytes.fromhex(signed.id) for signed in edits]


def exchange(
    one: EditSet, other: EditSet, *, beginners: int = 2, carry: Callable[[list[Any]], list[Any]] = lambda pile: pile
) -> list[Message]:
    """Heartbeats, and then answers until nobody has any; `carry` may shuffle, double and drop what is under way."""
    both, said = (one, other), []
    pile = [(place, sync.write(sync.heartbeat(both[place]))) for place in range(beginners)]
    while pile:
        carried, pile = carry(pile), []
        for sender, data in carried:
            receiver, message = 1 - sender, sync.read(data)
            said.append(message)
            if isinstance(message, Edits):
                both[receiver].add(message.edits)
                answers = sync.missing(both[receiver])
            else:
                answers = sync.answer(both[receiver], message)
            pile += [(receiver, sync.write(answer)) for answer in answers]
        assert len(said) < 10_000, "it does not come to an end"
    return said


# -- one exchange -------------------------------------------------------------------------------------------------


def test_equal_digests_need_no_word_more(network: Network) -> None:
    one, other = known(network), known(network)
    assert exchange(one, other) == [sync.heartbeat(one)] * 2


def test_one_exchange_step_by_step(network: Network) -> None:
    mine, yours = network.put("family/a", {}), network.put("family/b", {})
    one, other = known(network, mine), known(network, yours)
    heartbeat = sync.heartbeat(one)
    assert heartbeat == Summary(one.version, one.digest, [])
    (summary,) = sync.answer(other, heartbeat)
    assert isinstance(summary, Summary)
    assert (summary.version, summary.digest, len(summary.buckets)) == (other.version, other.digest, BUCKETS)
    (ids,) = sync.answer(one, summary)
    assert ids == Ids({number: ids_of(*in_bucket(one, number)) for number in {first(mine), first(yours)}})
    want, gift = sync.answer(other, ids)
    assert want == Want(ids_of(mine))
    assert gift == Edits([yours])
    assert sync.answer(one, want) == [Edits([mine])]


def first(signed: SignedEdit) -> int:
    return bytes.fromhex(signed.id)[0]


def in_bucket(edits: EditSet, number: int) -> list[SignedEdit]:
    return sorted((signed for signed in edits if first(signed) == number), key=lambda signed: signed.id)


def test_bucket_hashes_are_over_the_sorted_ids(network: Network) -> None:
    for number in range(300):
        network.put(f"family/{number}", {})
    for number, found in enumerate(network.edits.buckets.hashes):
        ids = [signed.id for signed in in_bucket(network.edits, number)]
        assert found == (sha256("".join(ids).encode()).digest() if ids else b"")
        assert network.edits.buckets.ids(number) == ids
    before = list(network.edits.buckets.hashes)
    signed = network.put("family/more", {})
    after = network.edits.buckets.hashes
    assert [number for number in range(BUCKETS) if before[number] != after[number]] == [first(signed)]


@pytest.mark.parametrize("beginners", [1, 2])
def test_both_learn_what_the_other_has(network: Network, beginners: int) -> None:
    mine = [network.put(f"family/{number}", {}) for number in range(40)]
    yours = [network.put(f"service/{number}", {}, by="b2") for number in range(40)]
    one, other = known(network, *mine), known(network, *yours)
    said = exchange(one, other, beginners=beginners)
    assert one.digest == other.digest == network.edits.digest
    assert len(said) <= beginners * 6


def test_a_version_that_is_higher_or_equal_says_nothing(network: Network) -> None:
    """The digest decides: both sides learn from each other, whoever has more."""
    mine = [network.put(f"family/{number}", {}) for number in range(5)]
    few, many = known(network, mine[0]), known(network, *mine[1:])
    exchange(few, many, beginners=1)
    assert few.digest == many.digest == network.edits.digest
    one, other = known(network, mine[0]), known(network, mine[1])
    assert one.version == other.version
    exchange(one, other)
    assert one.digest == other.digest


def test_a_new_broker_is_told_everything(network: Network) -> None:
    chain = [network.put("family/a", {})]
    for _ in range(50):
        chain.append(network.put("family/a", {}, chain[-1:], by="b2"))
    joiner = network.empty()
    said = exchange(joiner, known(network, *chain))
    assert joiner.digest == network.edits.digest
    assert not any(isinstance(message, Edits) and not message.edits for message in said)


# -- whatever happens to messages ---------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_lost_doubled_and_reordered_messages_only_take_longer(network: Network, seed: int) -> None:
    random = Random(seed)
    chain = [network.put("family/a", {})]
    for number in range(30):
        parents = random.sample(chain, min(len(chain), random.randint(1, 2)))
        chain.append(network.put("family/a", {"number": number}, parents, by=random.choice(["root", "b2"])))
    one, other = known(network, *chain[:20]), known(network)

    def unreliable(pile: list[Any]) -> list[Any]:
        carried = [each for each in pile for _ in range(random.choice([0, 1, 1, 2]))]
        random.shuffle(carried)
        return carried

    for _ in range(5):
        exchange(one, other, carry=unreliable)
    other.add(chain)
    exchange(one, other)
    assert one.digest == other.digest == network.edits.digest


def test_an_old_message_does_no_harm(network: Network) -> None:
    mine, yours = network.put("family/a", {}), network.put("family/b", {})
    one, other = known(network, mine), known(network, yours)
    said = exchange(one, other)
    digest = one.digest
    for message in said:
        for edits in (one, other):
            if isinstance(message, Edits):
                assert edits.add(message.edits).new == ()
            else:
                sync.answer(edits, message)
    assert one.digest == other.digest == digest


def test_edits_that_came_too_early_make_one_ask_for_what_is_missing(network: Network) -> None:
    parent = network.put("family/a", {})
    child = network.put("family/a", {}, [parent])
    edits = known(network)
    assert sync.missing(edits) == []
    edits.add([child])
    assert sync.missing(edits) == [Want(ids_of(parent))]


# -- bounds -------------------------------------------------------------------------------------------------------


def test_messages_are_bounded_and_the_next_exchange_goes_on(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    """Edits come in causal order, so those that did not fit are the last ones, and nothing waits for them."""
    chain = [network.put("family/a", {})]
    for _ in range(99):
        chain.append(network.put("family/a", {}, chain[-1:]))
    monkeypatch.setattr(sync, "EDITS_MAX", 10)
    monkeypatch.setattr(sync, "EDITS_MESSAGES_MAX", 3)
    one, other = known(network, *chain), known(network)
    for rounds in range(1, 5):
        said = exchange(one, other, beginners=1)
        assert all(len(message.edits) <= 10 for message in said if isinstance(message, Edits))
        assert other.orphans == 0
        assert other.version == min(2 + 30 * rounds, 102)
    assert one.digest == other.digest


def test_a_message_of_edits_is_bounded_in_bytes(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "EDITS_BYTES_MAX", 5000)
    small = [network.put(f"family/{number}", "x" * 1100) for number in range(30)]
    large = [network.put(f"service/{number}", "x" * 6000) for number in range(2)]
    one = known(network, *small, *large)
    messages = sync.answer(one, Want(ids_of(*large, *small)))
    packs = [message.edits for message in messages if isinstance(message, Edits)]
    assert [signed for pack in packs for signed in pack] == [*small, *large]
    assert all(sum(len(signed.data) for signed in pack) <= 5000 or len(pack) == 1 for pack in packs)
    assert [len(pack) for pack in packs] == [3] * 10 + [1, 1]


def test_ids_are_bounded_and_the_next_exchange_goes_on(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sync, "IDS_MAX", 20)
    mine = [network.put(f"family/{number}", {}) for number in range(60)]
    yours = [network.put(f"service/{number}", {}) for number in range(60)]
    one, other = known(network, *mine), known(network, *yours)
    rounds = 0
    while one.digest != other.digest:
        said = exchange(one, other)
        rounds += 1
        assert rounds <= 6
        for message in said:
            if isinstance(message, Ids):
                assert sum(map(len, message.buckets.values())) <= 20
            if isinstance(message, Want):
                assert len(message.ids) <= 20
    assert rounds > 1
    too_many = Ids({7: [bytes([7, number]) + bytes(30) for number in range(30)]})
    (want,) = (message for message in sync.answer(one, too_many) if isinstance(message, Want))
    assert len(want.ids) == 20


def test_the_largest_messages_can_be_read(network: Network) -> None:
    ids = [number.to_bytes(32, "big") for number in range(sync.IDS_MAX)]
    assert sync.read(sync.write(Want(ids))) == Want(ids)
    assert sync.read(sync.write(Ids({7: ids}))) == Ids({7: ids})
    pack = [network.put(f"family/{number}", "x" * 60_000, add=False) for number in range(17)]
    assert sync.read(sync.write(Edits(pack))) == Edits(pack)
    assert len(sync.write(Edits(pack))) > sync.EDITS_BYTES_MAX * 0.9
    with pytest.raises(ProtocolError, match="too_large"):
        sync.read(b"\x00" * (sync.MESSAGE_BYTES_MAX + 1))


@pytest.mark.parametrize(
    "message",
    [
        "summary",
        ["summary", -1, A],
        ["summary", 1, "a"],
        ["summary", 1, A, [b""] * 255],
        ["summary", 1, A, [b""] * 257],
        ["summary", 1, A, [b"x" * 33] * 256],
        ["ids", {256: []}],
        ["ids", {-1: []}],
        ["ids", {1: [b"short"]}],
        ["ids", {1: ["a" * 32]}],
        ["want", [b"x" * 33]],
        ["want"],
        ["edits", [[b"data"]]],
        ["edits", [[b"x" * 1_000_000, b""]]],
        ["edits", [[b"data", b"x" * 513]]],
        ["edits", [[b"", b""]] * 1001],
        ["other"],
        [],
        None,
    ],
)
def test_what_is_no_message_is_refused(message: Any) -> None:
    with pytest.raises(ProtocolError, match="bad_frames"):
        sync.read(msgspec.msgpack.encode(message))


def test_ids_that_nobody_has_are_no_trouble(network: Network) -> None:
    edits = known(network)
    assert sync.answer(edits, Want([b"x" * 32])) == []
    assert sync.answer(edits, Ids({})) == []
    assert sync.answer(edits, Ids({300 % BUCKETS: [b"x" * 32] * 3})) == [Want([b"x" * 32])]
    strange = Summary(1, A, edits.buckets.hashes)
    assert sync.answer(edits, strange) == [], "another digest, but nothing differs: whoever says so is wrong"


# -- news ---------------------------------------------------------------------------------------------------------


def test_news_bring_the_new_edits_and_a_summary(network: Network) -> None:
    signed = network.put("family/a", {})
    assert sync.news(network.edits, [signed]) == [Edits([signed]), sync.heartbeat(network.edits)]


def test_what_is_about_admins_is_not_published(network: Network) -> None:
    family, admin = network.put("family/a", {}), network.put("admin/a/ben", {"hash": "of a password"})
    assert sync.news(network.edits, [admin]) == [sync.heartbeat(network.edits)]
    assert sync.news(network.edits, [admin, family]) == [Edits([family]), sync.heartbeat(network.edits)]


def test_many_new_edits_are_no_news(network: Network) -> None:
    many = [network.put(f"family/{number}", {}) for number in range(sync.EDITS_MAX + 1)]
    assert sync.news(network.edits, many) == [sync.heartbeat(network.edits)]
