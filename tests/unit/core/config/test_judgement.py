"""Which edits count in a network whose edits need proofs: whoever signs what, and with whatever clock.

ann is the admin of family `a`, by whom the network was made; she gave family `b` to ben and `c` to cid. `b2` is a
broker of family `b`, `b3` of `c`. A broker here signs whatever its owner wants.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import permutations
from types import FrameType
from typing import Any

import pytest

from famulus.core.config.draft import Draft, parents_for
from famulus.core.config.edit import SignedEdit, public_key_in
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import Effective, effective
from famulus.core.config.revocation import values
from famulus.lab.sim.config.pen import Pen, Person, broker_value, root_pen, verify

ANN, BEN, CID = Person("ann", "a"), Person("ben", "b"), Person("cid", "c")
MAL = Person("mal", "b")


class Families:
    def __init__(self, *, proofs_needed: bool = True) -> None:
        root = root_pen("b1")
        self.pens = {"b1": root} | {name: Pen(name, root.network) for name in ("b2", "b3", "b9")}
        self.edits = EditSet(root.network, verify)
        self.clock = 100
        self.root = root.write_root(proofs_needed=proofs_needed)
        self.edits.add([self.root])
        self.says("b1", None, "family/a", {})
        self.says("b1", None, ANN.key, ANN.value)
        for name, family in (("b2", "b"), ("b3", "c")):
            self.says("b1", None, f"broker/{name}", broker_value(self.pens[name], family=family))
            self.says("b1", None, f"broker_state/{name}", {"state": "active"})
            self.says("b1", None, f"family/{family}", {})
        self.says("b1", ANN, BEN.key, BEN.value)
        self.says("b1", ANN, CID.key, CID.value)

    def says(
        self,
        broker: str,
        *who: Person | str | object | None,
        parents: tuple[str, ...] | None = None,
        hlc: int | None = None,
        grants: tuple[str, ...] = (),
    ) -> SignedEdit:
        """`says(broker, admin..., key, value)`: as that broker signs it, for these admins, or for nobody."""
        *people, key, value = who
        assert isinstance(key, str)
        self.clock += 1
        seen = parents_for(self.edits, key) if parents is None else parents
        draft = Draft(key, "DEL" if value is None else "PUT", value, tuple(sorted(seen)))
        admins = [person for person in people if isinstance(person, Person)]
        signers = {
            grants[number] if grants else self.grant(person.key, person.public_key): person.sign
            for number, person in enumerate(admins)
        }
        pen = self.pens[broker]
        signed = pen.write(
            draft,
            self.grant(f"broker/{broker}", pen.public_key),
            self.clock if hlc is None else hlc,
            self.clock,
            admins[0].name if admins else "join",
            signers,
        )
        assert self.edits.add([signed]).new == (signed,), "it is in the set, whether it counts or not"
        return signed

    def grant(self, key: str, public_key: str) -> str:
        """The newest edit there ever was that makes this key known."""
        return [each for each in self.edits.history(key) if public_key_in(each.edit) == public_key][-1].id

    def counts(self, signed: SignedEdit) -> bool:
        return signed.id not in self.edits.void

    @property
    def config(self) -> Effective:
        return effective(self.edits)


@pytest.fixture
def families() -> Families:
    return Families()


def test_all_that_was_made_rightly_counts(families: Families) -> None:
    assert families.edits.void == {}
    assert families.config.warnings == ()
    assert {family: set(admins) for family, admins in families.config.admins.items()} == {
        "a": {"ann"},
        "b": {"ben"},
        "c": {"cid"},
    }


@pytest.mark.parametrize("hlc", [None, 0, 1, 2**53 - 1])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("admin/c/mal", MAL.value),
        ("admin/c/cid", MAL.value),
        ("admin/c/cid", None),
        ("admin/a/mal", MAL.value),
        ("admin/a/ann", None),
        ("family/c", {"heartbeat_ms": 10}),
        ("family/c", None),
        ("broker/b3", {"family": "c", "host": "evil", "public_key": "00"}),
        ("broker/b3", {"family": "b", "host": "evil", "public_key": "00"}),
        ("broker/b3", None),
        ("broker_state/b3", {"state": "disabled"}),
        ("broker_state/b3", None),
        ("broker/b1", {"family": "b", "host": "evil", "public_key": "00"}),
        ("broker/b1", None),
        ("trusted_key/00", {"family": "c"}),
        ("broker/new", {"family": "c", "host": "evil", "public_key": "00"}),
    ],
)
@pytest.mark.parametrize("seen", [True, False])
def test_an_admin_with_a_changed_broker_does_nothing_to_another_family(
    families: Families, key: str, value: Any, hlc: int | None, *, seen: bool
) -> None:
    before = families.config
    parents = None if seen else ()
    signed = families.says("b2", BEN, key, value, parents=parents, hlc=hlc)
    assert not families.counts(signed)
    after = families.config
    for part in ("admins", "families", "brokers", "broker_states", "services", "trusted_keys", "conflicts"):
        assert getattr(after, part) == getattr(before, part), part
    (told,) = after.warnings
    assert told.key == key
    assert told.sentence.startswith(f"edit {signed.id[:8]} at broker 'b2' does not count: it is about family ")


@pytest.mark.parametrize("hlc", [None, 0, 2**53 - 1])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("admin/b/mal", MAL.value),
        ("admin/c/mal", MAL.value),
        ("family/b", {"heartbeat_ms": 10}),
        ("service/echo", {}),
        ("strange/thing", 7),
        ("broker_state/b3", {"state": "disabled"}),
        ("broker/b3", {"family": "c", "host": "evil", "public_key": "00"}),
        ("broker/b3", None),
        ("trusted_key/00", {"family": "b"}),
        ("revoked/00/0", {"identity": "b1", "family": "a", "kept": []}),
    ],
)
@pytest.mark.parametrize("seen", [True, False])
def test_a_broker_alone_changes_nothing(
    families: Families, key: str, value: Any, hlc: int | None, *, seen: bool
) -> None:
    before = families.config
    signed = families.says("b2", None, key, value, parents=None if seen else (), hlc=hlc)
    assert families.edits.void == {signed.id: "it lacks the proof of an admin"}
    assert families.config.admins == before.admins
    assert families.config.brokers == before.brokers
    assert families.config.broker_states == before.broker_states


def test_a_broker_alone_makes_one_known_that_joins(families: Families) -> None:
    families.says("b2", None, "broker/b9", broker_value(families.pens["b9"], family="new"))
    families.says("b2", None, "broker_state/b9", {"state": "active"})
    families.says("b2", None, "family/new", {})
    assert families.edits.void == {}
    assert families.config.brokers["b9"].family == "new"
    assert "new" in families.config.families


def test_a_broker_that_was_forgotten_joins_again_with_another_key(families: Families) -> None:
    families.says("b2", BEN, "broker/b2", None)
    families.says("b2", BEN, "broker_state/b2", None)
    families.says("b1", None, "broker/b2", broker_value(families.pens["b9"], family="b"))
    families.says("b1", None, "broker_state/b2", {"state": "active"})
    assert families.edits.void == {}
    assert families.config.broker_states["b2"] == "active"


def test_the_settings_of_a_family_are_not_replaced_by_one_that_joins(families: Families) -> None:
    families.says("b2", BEN, "family/b", {"heartbeat_ms": 500})
    families.says("b3", None, "family/b", {}, parents=(), hlc=2**53 - 1)
    assert families.config.families["b"].heartbeat_ms == 500
    assert families.config.conflicts == ()


def test_admins_change_what_is_theirs_and_what_is_nobodys(families: Families) -> None:
    for key, value in [
        ("family/b", {"heartbeat_ms": 500}),
        ("admin/b/bea", Person("bea", "b").value),
        ("broker/b2", broker_value(families.pens["b2"], family="b", host="moved")),
        ("broker_state/b2", {"state": "draining"}),
        ("service/echo", {}),
        ("strange/thing", 7),
        ("family/new", {}),
        ("trusted_key/00", {"family": "b"}),
    ]:
        assert families.counts(families.says("b3", BEN, key, value)), key


def test_who_was_made_an_admin_is_one(families: Families) -> None:
    bea = Person("bea", "b")
    families.says("b2", BEN, bea.key, bea.value)
    assert families.counts(families.says("b2", bea, "family/b", {"heartbeat_ms": 500}))
    assert not families.counts(families.says("b2", bea, "family/c", {}))
    families.says("b2", bea, BEN.key, None)
    assert set(families.config.admins["b"]) == {"bea"}
    assert list(families.edits.void.values()) == ["it is about family 'c', of which its author is not an admin"]


def test_whoever_was_made_an_admin_without_the_right_is_none_and_nor_is_whom_it_makes(families: Families) -> None:
    mal = Person("mal", "c")
    families.says("b2", BEN, mal.key, mal.value)
    more = Person("more", "c")
    made = families.says("b2", mal, more.key, more.value)
    said = families.says("b2", more, "service/echo", {})
    assert families.edits.void[made.id] == families.edits.void[said.id] == "its author is not an admin"
    assert "echo" not in families.config.services


def test_a_family_that_is_nobodys_goes_to_whoever_gives_it_an_admin_first(families: Families) -> None:
    dan, eve = Person("dan", "d"), Person("eve", "d")
    assert families.counts(families.says("b2", BEN, dan.key, dan.value))
    assert not families.counts(families.says("b3", CID, eve.key, eve.value))
    assert set(families.config.admins["d"]) == {"dan"}
    assert not families.counts(families.says("b2", BEN, "family/d", {"heartbeat_ms": 20}))
    assert families.counts(families.says("b2", dan, "family/d", {"heartbeat_ms": 30}))


def test_a_senior_beats_a_junior_who_set_its_clock_back(families: Families) -> None:
    dan, eve = Person("dan", "d"), Person("eve", "d")
    families.says("b1", ANN, dan.key, dan.value)
    families.says("b2", BEN, eve.key, eve.value, hlc=0)
    assert set(families.config.admins["d"]) == {"dan"}


def test_nobody_can_have_done_anything_before_it_became_an_admin(families: Families) -> None:
    """The clock of an edit counts from that of what it names."""
    dan, eve = Person("dan", "d"), Person("eve", "d")
    families.says("b3", CID, dan.key, dan.value)
    signed = families.says("b2", BEN, eve.key, eve.value, hlc=0, parents=())
    # ben was there before cid did that, and of the same rank: who made them both has to say whom to believe.
    assert families.counts(signed)
    fay, late = Person("fay", "e"), Person("late", "a")
    families.says("b3", CID, fay.key, fay.value)
    families.says("b1", ANN, late.key, late.value)
    assert not families.counts(families.says("b1", late, "admin/e/gus", Person("gus", "e").value, hlc=0))


def test_what_the_maker_of_a_family_said_about_it_before_still_holds(families: Families) -> None:
    families.says("b1", ANN, "family/d", {"heartbeat_ms": 700})
    dan = Person("dan", "d")
    families.says("b1", ANN, dan.key, dan.value)
    assert families.config.families["d"].heartbeat_ms == 700
    assert not families.counts(families.says("b1", ANN, "family/d", {"heartbeat_ms": 10}))
    assert families.config.families["d"].heartbeat_ms == 700


def test_the_maker_of_a_family_that_it_gave_away_is_no_admin_of_it(families: Families) -> None:
    assert not families.counts(families.says("b1", ANN, MAL.key, MAL.value))
    assert set(families.config.admins["b"]) == {"ben"}


def test_a_family_whose_last_admin_went_is_anybodys_again(families: Families) -> None:
    families.says("b2", BEN, BEN.key, None)
    bea = Person("bea", "b")
    assert families.counts(families.says("b3", CID, bea.key, bea.value))
    assert families.counts(families.says("b3", bea, "family/b", {"heartbeat_ms": 40}))
    assert not families.counts(families.says("b3", CID, "family/b", {"heartbeat_ms": 50}))


def test_a_broker_moves_between_families_only_with_both(families: Families) -> None:
    for people in ([BEN], [CID]):
        signed = families.says("b2", *people, "broker/b2", broker_value(families.pens["b2"], family="c"), parents=None)
        assert not families.counts(signed)
    both = Person("cid", "b")
    families.says("b2", BEN, both.key, both.value)
    assert families.counts(families.says("b2", CID, both, "broker/b2", broker_value(families.pens["b2"], family="c")))
    assert families.config.brokers["b2"].family == "c"
    late = families.says("b2", BEN, "broker/b2", broker_value(families.pens["b2"], family="b"))
    assert not families.counts(late)


@pytest.mark.parametrize("hlc", [None, 0, 1, 2**53 - 1])
@pytest.mark.parametrize(
    "value", [{"owner": "c", "max_attempts": 5}, {"owner": "b"}, {"owner": ""}, {}, {"owner": 7}, None]
)
def test_a_service_is_changed_by_its_owners_admins_alone(families: Families, value: Any, hlc: int | None) -> None:
    families.says("b1", CID, "service/echo", {"owner": "c", "max_attempts": 2})
    for parents in (None, ()):
        assert not families.counts(families.says("b2", BEN, "service/echo", value, parents=parents, hlc=hlc))
        assert families.config.service_owners == {"echo": "c"}
        assert families.config.services["echo"].max_attempts == 2
    assert families.counts(families.says("b2", CID, "service/echo", {"owner": "c", "max_attempts": 3}))
    assert families.config.services["echo"].max_attempts == 3


def test_a_service_without_an_owner_is_claimed_by_a_family_for_itself_alone(families: Families) -> None:
    families.says("b1", ANN, "service/echo", {"max_attempts": 2})
    assert not families.counts(families.says("b2", BEN, "service/echo", {"owner": "c"}))
    assert families.counts(families.says("b2", BEN, "service/echo", {"owner": "b"}))
    assert not families.counts(families.says("b1", ANN, "service/echo", {"owner": "a"}))
    assert families.counts(families.says("b2", BEN, "service/echo", {"owner": ""})), "its owner gives it away"
    assert families.counts(families.says("b3", CID, "service/echo", {"owner": "c"}))


@pytest.mark.parametrize("blank", ["", "  "])
def test_what_belongs_to_a_blank_family_belongs_to_the_default_one(families: Families, blank: str) -> None:
    max_ = Person("max", "main")
    families.says("b1", ANN, max_.key, max_.value)
    for key, value in (
        ("broker/new", {"family": blank, "host": "evil", "public_key": "00"}),
        ("trusted_key/00", {"family": blank}),
    ):
        assert not families.counts(families.says("b2", BEN, key, value)), key
        assert families.counts(families.says("b2", max_, key, value)), key
    assert families.config.brokers["new"].family == "main"


def test_a_former_owner_who_sets_its_clock_back_loses_to_the_new_one(families: Families) -> None:
    before = parents_for(families.edits, "broker/b2")
    both = Person("cid", "b")
    families.says("b2", BEN, both.key, both.value)
    families.says("b2", CID, both, "broker/b2", broker_value(families.pens["b2"], family="c"))
    value = broker_value(families.pens["b2"], family="b", host="mine")
    families.says("b2", BEN, "broker/b2", value, parents=before, hlc=0)
    families.says("b2", BEN, "broker/b2", value, parents=before, hlc=2**53 - 1)
    assert families.config.brokers["b2"].family == "c"


def test_a_family_forgets_its_own_brokers_and_no_others(families: Families) -> None:
    own, other = families.pens["b2"].public_key, families.pens["b3"].public_key
    for family in ("b", "c"):
        (value,) = values("b3", family, [])
        signed = families.says("b2", BEN, f"revoked/{other}/0", value)
        assert not families.counts(signed)
    assert "b3" in families.config.brokers
    (value,) = values("b2", "b", families.edits.signed_by(own))
    families.says("b3", BEN, "broker/b2", None)
    assert families.counts(families.says("b3", BEN, f"revoked/{own}/0", value))
    late = families.says("b2", BEN, "service/echo", {})
    assert families.edits.void[late.id] == "it was forgotten before"


def test_what_a_forgotten_broker_claimed_is_free_again(families: Families) -> None:
    own = families.pens["b2"].public_key
    (value,) = values("b2", "b", families.edits.signed_by(own))
    dan, eve = Person("dan", "d"), Person("eve", "d")
    families.says("b2", BEN, dan.key, dan.value)
    families.says("b3", BEN, "broker/b2", None)
    families.says("b3", BEN, f"revoked/{own}/0", value)
    assert families.counts(families.says("b3", CID, eve.key, eve.value))
    assert set(families.config.admins["d"]) == {"eve"}


def test_nobody_talks_a_network_out_of_its_proofs(families: Families) -> None:
    """Not even its first broker; and no other can say what only the first one may."""
    families.edits.add([families.pens["b1"].write_root(host="again")])
    assert families.edits.needs_proofs
    assert not families.counts(families.says("b2", None, "service/echo", {}))
    claim = families.pens["b2"].write_root()
    assert list(families.edits.add([claim]).refused) == ["bad_edit: it has no grant, and is not the root's own"]


def test_who_comes_first_or_last_makes_no_difference_to_whether_proofs_are_needed(families: Families) -> None:
    """An edit without a proof is not an old one because it claims to be."""
    signed = families.says("b2", None, "service/echo", {}, hlc=0)
    others = EditSet(families.edits.network, verify)
    others.add([signed])
    assert others.version == 0, "it waits for the first edit of the network, which asks for proofs"
    others.add(families.edits)
    assert signed.id in others.void


def test_a_network_of_before_takes_edits_without_proofs() -> None:
    families = Families(proofs_needed=False)
    families.says("b2", None, "admin/c/mal", MAL.value)
    assert families.edits.void == {}
    assert set(families.config.admins["c"]) == {"cid", "mal"}


# -- proofs ---------------------------------------------------------------------------------------------------------


def test_a_proof_that_is_not_the_authors_does_not_get_in(families: Families) -> None:
    right = families.says("b2", BEN, "service/echo", {})
    false = [
        SignedEdit(right.data, right.signature),
        SignedEdit(right.data, right.signature, (b"x" * 16,)),
        SignedEdit(right.data, right.signature, (CID.sign(right.data),)),
        SignedEdit(right.data, right.signature, right.proofs * 2),
    ]
    alone = families.says("b2", None, "strange/thing", {})
    false.append(SignedEdit(alone.data, alone.signature, right.proofs))
    for wrong in false:
        others = EditSet(families.edits.network, verify)
        others.add(each for each in families.edits if each.id != wrong.id)
        assert len(others.add([wrong]).refused) == 1
        others.add([right, alone])
        assert others.digest == families.edits.digest, "the right one is not kept out by it"


def test_a_grant_is_that_of_the_author_it_names(families: Families) -> None:
    pen, grant = families.pens["b2"], families.grant("broker/b2", families.pens["b2"].public_key)
    for name, of, signing in (("ben", ANN, BEN), ("ann", BEN, BEN), ("cid", CID, BEN)):
        signers = {families.grant(of.key, of.public_key): signing.sign}
        signed = pen.write(Draft("service/echo", "PUT", {}, ()), grant, 9, 9, name, signers)
        assert len(families.edits.add([signed]).refused) == 1
    signers = {families.root.id: BEN.sign}
    signed = pen.write(Draft("service/echo", "PUT", {}, ()), grant, 9, 9, "ben", signers)
    assert len(families.edits.add([signed]).refused) == 1


def test_an_edit_waits_for_its_authors_grant(families: Families) -> None:
    signed = families.says("b2", BEN, "service/echo", {})
    others = EditSet(families.edits.network, verify)
    others.add([signed])
    assert families.grant(BEN.key, BEN.public_key) in others.missing()


def test_the_verdict_is_the_same_in_whatever_order_the_edits_come(families: Families) -> None:
    before = list(families.edits)
    dan, eve, mal = Person("dan", "d"), Person("eve", "d"), Person("mal", "c")
    families.says("b2", BEN, eve.key, eve.value, hlc=0)
    families.says("b1", ANN, dan.key, dan.value)
    families.says("b2", BEN, mal.key, mal.value)
    families.says("b2", eve, "family/d", {"heartbeat_ms": 10})
    families.says("b2", BEN, "broker/b3", None, parents=())
    new = list(families.edits)[len(before) :]
    told = set()
    for order in permutations(new):
        other = EditSet(families.edits.network, verify)
        other.add([*before, *order])
        told.add(effective(other).to_bytes())
    assert told == {families.config.to_bytes()}


def test_what_would_not_count_is_said_before_it_is_made(families: Families) -> None:
    for person, key, expected in ((BEN, "family/c", "family/c: it is about family 'c'"), (BEN, "family/b", "")):
        trial = Families()
        signed = trial.says("b2", person, key, {})
        assert families.edits.objection([signed]).startswith(expected)
        assert bool(families.edits.objection([signed])) == bool(expected)
    assert families.edits.void == {}


# -- many edits -----------------------------------------------------------------------------------------------------


def steps_of(families: Families) -> int:
    """How much is done to judge all edits anew: the lines of code that are gone through, since times differ."""
    steps = 0

    def count(_: FrameType, what: str, __: object) -> Callable[..., Any]:
        nonlocal steps
        steps += what == "line"
        return count

    edits = EditSet(families.edits.network, verify)
    edits.add(families.edits)
    former = sys.gettrace()
    sys.settrace(count)
    try:
        assert edits.void is not None
        effective(edits)
    finally:
        sys.settrace(former)
    return steps


def as_one_after_the_other(families: Families, count: int) -> None:
    for number in range(count):
        families.says("b2", BEN, "family/b", {"heartbeat_ms": 100 + number})


def as_heads_of_one_key(families: Families, count: int) -> None:
    for number in range(count):
        families.says("b2", BEN, "family/b", {"heartbeat_ms": 100 + number}, parents=())


def upon_a_long_row_that_does_not_count(families: Families, count: int) -> None:
    parents: tuple[str, ...] = ()
    for _ in range(count // 2):
        parents = (families.says("b2", None, "family/b", {"drain_ms": 7}, parents=parents).id,)
    for number in range(count // 2):
        families.says("b2", BEN, "family/b", {"heartbeat_ms": 100 + number}, parents=parents)


def about_families_that_are_given_away_twice(families: Families, count: int) -> None:
    for number in range(count // 2):
        for broker, giver in (("b2", BEN), ("b3", CID)):
            person = Person(f"{giver.name}s", f"new{number}")
            families.says(broker, giver, person.key, person.value, parents=())


@pytest.mark.parametrize(
    "said",
    [
        as_one_after_the_other,
        as_heads_of_one_key,
        upon_a_long_row_that_does_not_count,
        about_families_that_are_given_away_twice,
    ],
)
def test_judging_twice_as_many_edits_takes_twice_as_long(said: Callable[[Families, int], None]) -> None:
    """Whoever signs edits decides how they build upon each other."""
    few, many = Families(), Families()
    said(few, 60)
    said(many, 240)
    assert steps_of(many) < 5 * steps_of(few)
