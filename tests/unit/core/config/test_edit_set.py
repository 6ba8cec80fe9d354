"""The set of edits: what belongs to it, in whatever order it comes, and what it says about itself."""

from __future__ import annotations

from hashlib import sha256
from itertools import permutations
from typing import TYPE_CHECKING

import msgspec
import pytest

from famulus.core.config import edit, orphans
from famulus.core.config.draft import Draft
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import Added, network_of
from famulus.lab.sim.config.pen import Pen, broker_value, root_pen, signer, verify

if TYPE_CHECKING:
    from tests.unit.core.config.conftest import Network


def reasons_of(added: Added) -> list[str]:
    return list(added.refused)


# -- growing ------------------------------------------------------------------------------------------------------


def test_an_edit_is_new_once(network: Network) -> None:
    signed = network.put("family/a", {}, add=False)
    assert network.edits.add([signed, signed]) == Added(new=(signed,))
    assert network.edits.add([signed]) == Added()
    assert signed.id in network.edits
    assert network.edits.get(signed.id) == signed


def test_heads_are_the_edits_that_no_other_names(network: Network) -> None:
    a = network.put("family/a", {})
    b = network.put("family/a", {"heartbeat_ms": 500}, [a])
    assert network.edits.heads("family/a") == (b,)
    c = network.put("family/a", {"heartbeat_ms": 900}, [a], by="b2")
    assert set(network.edits.heads("family/a")) == {b, c}
    d = network.delete("family/a", [b, c])
    assert network.edits.heads("family/a") == (d,)
    assert network.edits.heads("family/nobody") == ()


def test_the_order_of_coming_makes_no_difference(network: Network) -> None:
    a = network.put("family/a", {})
    b = network.put("family/a", {"heartbeat_ms": 500}, [a])
    c = network.put("family/a", {"heartbeat_ms": 900}, [a], by="b2")
    d = network.put("family/a", {}, [b, c])
    grant = network.edits.heads("broker/b2")[0]
    for order in permutations([network.first, grant, a, b, c, d]):
        edits = network.empty()
        new: list[SignedEdit] = []
        for signed in order:
            new += edits.add([signed]).new
        assert len(new) == 6
        assert all(set(each.edit.parents) <= {one.id for one in new[:place]} for place, each in enumerate(new))
        assert edits.digest == network.edits.digest
        assert edits.heads("family/a") == (d,)
        assert edits.history("family/a") == network.edits.history("family/a")
        assert edits.orphans == 0
        assert edits.missing() == []


def test_an_edit_waits_for_what_it_builds_upon(network: Network) -> None:
    a = network.put("family/a", {}, add=False)
    b = network.put("family/a", {}, [a], add=False)
    c = network.put("family/a", {}, [b], add=False)
    assert network.edits.add([c, b]) == Added(waiting=(c.id, b.id))
    assert network.edits.orphans == 2
    assert network.edits.missing() == [a.id], "b is here, if not in the set"
    assert network.edits.heads("family/a") == ()
    assert network.edits.add([a]) == Added(new=(a, b, c))
    assert network.edits.orphans == 0


def test_an_edit_waits_for_its_grant(network: Network) -> None:
    late = network.put("family/a", {}, by="b2", add=False)
    edits = network.empty()
    assert edits.add([late]) == Added(waiting=(late.id,))
    assert edits.missing() == [network.grants["b2"]]
    assert set(edits.add(network.edits).new) == {*network.edits, late}


def test_many_orphans_in_a_row_are_no_trouble(network: Network) -> None:
    chain = [network.put("family/a", {}, add=False)]
    for _ in range(3000):
        chain.append(network.put("family/a", {}, chain[-1:], add=False))
    assert len(network.edits.add(chain[:0:-1]).waiting) == 3000
    assert network.edits.add(chain[:1]).new == tuple(chain)


def test_orphans_are_bounded_in_count(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "ORPHANS_MAX", 3)
    parent = network.put("family/a", {}, add=False)
    waiting = [network.put("family/a", {"number": number}, [parent], add=False) for number in range(5)]
    assert network.edits.add(waiting).waiting == tuple(signed.id for signed in waiting[2:]), "the oldest made room"
    assert network.edits.orphans == 3
    assert set(network.edits.add([parent]).new) == {parent, *waiting[2:]}
    assert len(network.edits.add(waiting).new) == 2, "what was forgotten is taken when it comes again"


def test_orphans_are_bounded_in_bytes(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    parent = network.put("family/a", {}, add=False)
    waiting = [network.put("family/a", "x" * 5000, [parent], add=False) for _ in range(5)]
    monkeypatch.setattr(orphans, "ORPHAN_BYTES_MAX", 12_000)
    assert network.edits.add(waiting).waiting == tuple(signed.id for signed in waiting[3:])
    network.edits.add([parent])
    monkeypatch.setattr(orphans, "ORPHAN_BYTES_MAX", 6000)
    child = network.put("family/a", {}, [waiting[0]], add=False)
    assert network.edits.add([child]).waiting == (child.id,), "those that left have made room, too"


def test_what_forgotten_orphans_waited_for_is_not_asked_for(network: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(orphans, "ORPHANS_MAX", 1)
    parents = [network.put(f"family/{name}", {}, add=False) for name in "ab"]
    for parent in parents:
        network.edits.add([network.put(parent.edit.key, {}, [parent], add=False)])
    assert network.edits.missing() == [parents[1].id]


# -- validity -----------------------------------------------------------------------------------------------------


def test_a_false_signature_is_refused(network: Network) -> None:
    signed = network.put("family/a", {}, add=False)
    false = SignedEdit(signed.data, b"x" + signed.signature[1:])
    assert reasons_of(network.edits.add([false])) == ["bad_edit: the signature is not that of its broker"]
    assert network.edits.add([signed]).new == (signed,)


def test_a_false_signature_does_not_keep_the_right_one_out(network: Network) -> None:
    """Also while both wait for the same parent."""
    parent = network.put("family/a", {}, add=False)
    signed = network.put("family/a", {}, [parent], add=False)
    false = SignedEdit(signed.data, b"false")
    for order in ([false, signed], [signed, false]):
        edits = network.empty()
        edits.add(network.edits)
        assert edits.add(order).waiting == (signed.id,)
        assert edits.add([parent]).new == (parent, signed)
        assert edits.orphans == 0


def test_another_broker_cannot_sign_for_one(network: Network) -> None:
    forged = edit.sign(network.put("family/a", {}, add=False).edit, signer(network.pens["b2"].public_key))
    assert reasons_of(network.edits.add([forged])) == ["bad_edit: the signature is not that of its broker"]


def test_the_grant_must_be_that_of_the_broker(network: Network) -> None:
    complaint = "bad_edit: its grant does not make the public key of its broker known"
    other = network.put("family/a", {})
    for grant in (network.first.id, other.id):
        signed = network.put("family/b", {}, by="b2", grant=grant, add=False)
        assert reasons_of(network.edits.add([signed])) == [complaint]


@pytest.mark.parametrize("value", [None, "text", [], {}, {"public_key": 5}, {"public_key": ""}])
def test_a_grant_without_a_key_grants_nothing(network: Network, value: object) -> None:
    hollow = network.put("broker/b2", value, network.edits.heads("broker/b2"))
    signed = network.put("family/a", {}, by="b2", grant=hollow.id, add=False)
    (reason,) = reasons_of(network.edits.add([signed]))
    assert "its grant does not make the public key" in reason


def test_a_deleted_broker_is_no_grant(network: Network) -> None:
    deleted = network.delete("broker/b2", network.edits.heads("broker/b2"))
    signed = network.put("family/a", {}, by="b2", grant=deleted.id, add=False)
    assert len(network.edits.add([signed]).refused) == 1
    assert signed.id not in network.edits


def test_a_broker_that_was_made_known_may_make_others_known(network: Network) -> None:
    network.introduce("b3", by="b2")
    signed = network.put("family/a", {}, by="b3")
    assert network.edits.heads("family/a") == (signed,)


def test_parents_are_edits_of_the_same_key(network: Network) -> None:
    other = network.put("family/a", {})
    signed = network.put("family/b", {}, [other], add=False)
    assert reasons_of(network.edits.add([signed])) == ["bad_edit: a parent is an edit of another key"]


def test_another_network_is_another_world(network: Network) -> None:
    stranger = root_pen("stranger").write_root()
    assert reasons_of(network.edits.add([stranger])) == ["bad_edit: it belongs to another network"]


def test_rubbish_is_refused_and_the_rest_is_taken(network: Network) -> None:
    signed = network.put("family/a", {}, add=False)
    added = network.edits.add([SignedEdit(b"rubbish", b""), signed, SignedEdit(signed.data + b" ", signed.signature)])
    assert added.new == (signed,)
    assert len(added.refused) == 2


# -- the root -----------------------------------------------------------------------------------------------------


def test_the_network_is_named_after_the_key_of_its_root() -> None:
    key = "ab" * 32
    assert network_of(key) == sha256(bytes.fromhex(key)).hexdigest()
    for no_key in ("AB" * 32, " ab", "a", "no key", "é"):
        assert network_of(no_key) == ""


def test_only_the_root_needs_no_grant(network: Network) -> None:
    complaint = "bad_edit: it has no grant, and is not the root's own"
    root = network.pens["root"]
    for draft in (
        Draft("family/a", "PUT", broker_value(root), ()),
        Draft("broker/b2", "PUT", broker_value(root), ()),
        Draft("broker/root", "DEL", None, ()),
        Draft("broker/root", "PUT", broker_value(root, public_key="ab" * 32), ()),
        Draft("broker/root", "PUT", broker_value(root, public_key="ab" * 31 + " a"), ()),
        Draft("broker/root", "PUT", broker_value(root), (network.first.id,)),
    ):
        assert reasons_of(network.edits.add([network.write(draft, grant="")])) == [complaint], draft
    usurper = Pen("b2", network.id)
    claim = usurper.write(Draft("broker/b2", "PUT", broker_value(usurper), ()), "", 0, 0)
    assert reasons_of(network.edits.add([claim])) == [complaint]


def test_the_root_signs_its_own_edit(network: Network) -> None:
    edits = network.empty()
    forged = edit.sign(network.first.edit, signer(network.pens["b2"].public_key))
    assert reasons_of(edits.add([forged])) == ["bad_edit: the signature is not that of its broker"]
    assert edits.add([network.first]).new == (network.first,)


# -- what it says about itself ------------------------------------------------------------------------------------


def test_the_digest_is_a_hash_over_the_sorted_ids(network: Network) -> None:
    for number in range(20):
        network.put(f"family/{number}", {})
        ids = sorted(signed.id for signed in network.edits)
        assert network.edits.digest == sha256("".join(ids).encode()).hexdigest()
        assert network.edits.version == len(network.edits) == len(ids)
    assert network.empty().digest == sha256(b"").hexdigest()


def test_keys_are_those_that_ever_had_an_edit(network: Network) -> None:
    network.delete("family/z", [network.put("family/z", {})])
    network.put("family/a", {})
    assert network.edits.keys() == ["broker/b2", "broker/root", "family/a", "family/z"]


def test_history_is_causal_first_and_by_the_clock_then(network: Network) -> None:
    a = network.put("family/a", {}, hlc=500)
    b = network.put("family/a", {}, [a], hlc=3)
    c = network.put("family/a", {}, [a], hlc=2, by="b2")
    d = network.put("family/a", {}, [b], hlc=1)
    assert network.edits.history("family/a") == [a, c, b, d]
    assert network.edits.history("family/nobody") == []


def test_a_broker_accepts_edits_under_the_newest_edit_with_its_key(network: Network) -> None:
    edits, pen = network.edits, network.pens["b2"]
    assert edits.grant_of("b2", pen.public_key) == network.grants["b2"]
    assert edits.grant_of("b3", pen.public_key) == ""
    assert edits.grant_of("b2", "ab" * 32) == ""
    moved = network.put("broker/b2", broker_value(pen, host="elsewhere"), edits.heads("broker/b2"))
    assert edits.grant_of("b2", pen.public_key) == moved.id
    network.delete("broker/b2", [moved])
    assert edits.grant_of("b2", pen.public_key) == "", "it is not known any more"


def test_verify_is_asked_about_the_key_the_bytes_and_the_signature(network: Network) -> None:
    signed = network.put("family/a", {}, by="b2", add=False)
    asked = []

    def noting(public_key: str, message: bytes, signature: bytes) -> bool:
        asked.append((public_key, message, signature))
        return verify(public_key, message, signature)

    edits = type(network.edits)(network.id, noting)
    edits.add([*network.edits, signed])
    assert asked[-1] == (network.pens["b2"].public_key, b"famulus edit 1\n" + signed.data, signed.signature)
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(signed), type=SignedEdit) == signed
