"""Merging edits is union, however they come; and whatever is read, nothing but a typed error comes of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import msgspec
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.longer import examples

from famulus.core.config import edit, schema, sync
from famulus.core.config.draft import Draft, check
from famulus.core.config.edit import Edit, SignedEdit, named_by
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import effective
from famulus.core.config.sync import Edits, Ids, Summary, Want
from famulus.core.steward.books import book_of
from famulus.errors import ProtocolError
from famulus.lab.sim.config.pen import CHIEF, EVE, Pen, broker_value, root_pen, verify

ROOT = root_pen("root")
PENS = [ROOT, Pen("b1", ROOT.network), Pen("b2", ROOT.network)]
FIRST = ROOT.write_root()
#: Of each pen, what makes it known: the second one by the first, the third one by the second.
GRANTS = [FIRST, ROOT.write(PENS[1].introduction(), FIRST.id, 1, 1)]
GRANTS.append(PENS[1].write(PENS[2].introduction(), GRANTS[1].id, 2, 2))

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
scalar = (
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | text
)
value = st.recursive(
    scalar, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(text, inside, max_size=3), max_leaves=6
)
known_fields = sorted({name for kind in schema.KINDS.values() for name in kind.__struct_fields__})
#: Right often enough that what lies behind the first check is reached as well.
plausible = st.dictionaries(
    st.sampled_from(known_fields) | text,
    value
    | st.sampled_from(["a", "b", "all", "active", "disabled", "draining", ["a", "b"], [], {"timeout_ms": 5}, 1000]),
    max_size=5,
)
keys = st.sampled_from(
    ["family/a", "family/b", "broker/b1", "broker_state/b1", "broker_state/b9", "service/x", "admin/a/ann", "odd"]
)


#: Made once, here and below: whatever is made anew for each draw is checked anew, too.
writers = st.integers(0, 2)
values = plausible | value
clocks = st.integers(0, 3) | st.just(2**53 - 1)


@dataclass(frozen=True, slots=True)
class Case:
    #: In causal order.
    edits: list[SignedEdit]


@st.composite
def cases(draw: st.DrawFn, max_size: int = 12) -> Case:
    """Valid edits by three brokers, each of which had seen any of those before."""
    edits = list(GRANTS)
    for number in range(draw(st.integers(0, max_size))):
        key = draw(keys)
        before = [signed.id for signed in edits if signed.edit.key == key]
        parents = draw(st.lists(st.sampled_from(before), unique=True, max_size=3)) if before else []
        writer = draw(writers)
        deleted = draw(st.booleans())
        draft = Draft(key, "DEL" if deleted else "PUT", None if deleted else draw(values), tuple(parents))
        hlc = draw(clocks)
        edits.append(PENS[writer].write(draft, GRANTS[writer].id, hlc, 100 + number))
    return Case(edits)


def given_all(*batches: Iterable[SignedEdit]) -> EditSet:
    edits = EditSet(ROOT.network, verify)
    for batch in batches:
        edits.add(batch)
    return edits


def facts(edits: EditSet) -> tuple[object, ...]:
    """All that anybody could tell two sets apart by."""
    found = edits.keys()
    return (
        edits.digest,
        edits.version,
        {key: edits.heads(key) for key in found},
        {key: edits.history(key) for key in found},
        edits.buckets.hashes,
        edits.missing(),
        effective(edits).to_bytes(),
    )


def closed(edits: Iterable[SignedEdit]) -> set[str]:
    """The largest causally closed part of them, the slow way."""
    left = {signed.id: signed.edit for signed in edits}
    while True:
        lacking = {edit_id for edit_id, one in left.items() if not left.keys() >= {*named_by(one)}}
        if not lacking:
            return set(left)
        left = {edit_id: one for edit_id, one in left.items() if edit_id not in lacking}


STRICT = ROOT.write_root(proofs_needed=True)
_KNOWN = [ROOT.write(pen.introduction(), STRICT.id, 1, 1) for pen in PENS[1:]]
_MADE = ROOT.write(Draft(CHIEF[0].key, "PUT", CHIEF[0].value, ()), STRICT.id, 1, 1)
_GIVEN = [
    ROOT.write(Draft(person.key, "PUT", person.value, ()), STRICT.id, 1, 1, "chief", {_MADE.id: CHIEF[0].sign})
    for person in (CHIEF[1], EVE)
]
#: Who may sign with what: the first admin for both of its families or for one, an admin of another one, nobody.
SIGNERS = [
    ("chief", {_MADE.id: CHIEF[0].sign, _GIVEN[0].id: CHIEF[1].sign}),
    ("chief", {_GIVEN[0].id: CHIEF[1].sign}),
    ("eve", {_GIVEN[1].id: EVE.sign}),
    ("join", {}),
]
owned_values = st.sampled_from(
    [
        {},
        {"family": "a"},
        {"family": "c"},
        {"owner": "a"},
        {"owner": "c"},
        EVE.value,
        {"state": "active"},
        broker_value(PENS[1], family="c"),
        7,
    ]
)
signings = st.sampled_from(SIGNERS)
owned_or_not = st.none() | owned_values | plausible
owned_keys = keys | st.sampled_from(["admin/c/x", "admin/d/x", f"revoked/{PENS[2].public_key}/0", "trusted_key/00"])


@st.composite
def judged_cases(draw: st.DrawFn) -> Case:
    """Of a network whose edits need proofs: edits that anybody made, with the right to or without."""
    edits = [STRICT, *_KNOWN, _MADE, *_GIVEN]
    for number in range(draw(st.integers(0, 10))):
        key = draw(owned_keys)
        before = [signed.id for signed in edits if signed.edit.key == key]
        parents = draw(st.lists(st.sampled_from(before), unique=True, max_size=3)) if before else []
        writer = draw(writers)
        author, signers = draw(signings)
        value = draw(owned_or_not)
        draft = Draft(key, "DEL" if value is None else "PUT", value, tuple(sorted(parents)))
        grant = STRICT if writer == 0 else _KNOWN[writer - 1]
        hlc = draw(clocks)
        edits.append(PENS[writer].write(draft, grant.id, hlc, 100 + number, author, signers))
    return Case(edits)


@given(case=judged_cases(), data=st.data())
def test_who_had_the_right_to_what_does_not_depend_on_the_order(case: Case, data: st.DataObject) -> None:
    order = data.draw(st.permutations(case.edits))
    one, other = given_all(case.edits), given_all(*([signed] for signed in order))
    assert one.void == other.void
    assert facts(one) == facts(other)


@given(case=judged_cases(), data=st.data())
def test_what_was_found_out_before_makes_no_difference_to_the_verdict(case: Case, data: st.DataObject) -> None:
    """Only what may have changed is judged anew; and what a trial says is what comes of it."""
    order = data.draw(st.permutations(case.edits))
    edits = given_all([STRICT])
    for signed in order:
        complete = all(each in edits for each in named_by(signed.edit))
        objection = edits.objection([signed]) if complete and signed.edit.grant and signed.id not in edits else None
        new = edits.add([signed]).new
        assert edits.void == given_all(edits).void
        if objection is not None and len(new) == 1:
            assert bool(objection) == (signed.id in edits.void)


@given(case=judged_cases())
def test_nobody_becomes_an_admin_of_a_family_that_is_anothers(case: Case) -> None:
    edits = given_all(case.edits)
    for signed in edits:
        about = schema.subject(signed.edit.key)
        if about.kind == "admin" and about.family in ("a", "b") and signed.edit.author != "chief":
            assert signed.id in edits.void or (not signed.edit.author_grants and signed.edit.broker == ROOT.broker)


# -- the laws of merging ------------------------------------------------------------------------------------------


@given(case=cases(), data=st.data())
def test_any_order_any_batches_any_repetition_give_the_same_set(case: Case, data: st.DataObject) -> None:
    came = data.draw(st.lists(st.sampled_from(case.edits), max_size=40))
    order = data.draw(st.permutations(sorted(set(came), key=came.index)))
    cut = data.draw(st.integers(0, len(came)))
    one, other = given_all(came[:cut], came[cut:]), given_all(*([signed] for signed in order))
    assert facts(one) == facts(other)
    assert {signed.id for signed in one} == closed(came)
    assert one.orphans == len(set(came)) - len(one)


@given(case=cases(), data=st.data())
def test_merging_sets_is_commutative_associative_and_idempotent(case: Case, data: st.DataObject) -> None:
    a, b, c = (given_all(data.draw(st.lists(st.sampled_from(case.edits), max_size=15))) for _ in range(3))
    assert facts(given_all(a, b)) == facts(given_all(b, a))
    assert facts(given_all(given_all(a, b), c)) == facts(given_all(a, given_all(b, c)))
    assert facts(given_all(a, a)) == facts(given_all(a))
    merged = given_all(a, b)
    assert {signed.id for signed in merged} >= {signed.id for signed in a} | {signed.id for signed in b}


@given(case=cases(), data=st.data())
def test_what_was_tampered_with_never_gets_in(case: Case, data: st.DataObject) -> None:
    victim = data.draw(st.sampled_from(case.edits))
    at = data.draw(st.integers(0, len(victim.data) - 1))
    data_hit = victim.data[:at] + bytes([victim.data[at] ^ data.draw(st.integers(1, 255))]) + victim.data[at + 1 :]
    false = [SignedEdit(data_hit, victim.signature), SignedEdit(victim.data, b"x" * 16), SignedEdit(data_hit, b"")]
    right = given_all(case.edits)
    mixed = given_all(data.draw(st.permutations([*false, *case.edits])))
    assert (mixed.digest, effective(mixed).to_bytes()) == (right.digest, effective(right).to_bytes())


@given(case=cases(), data=st.data())
def test_history_is_causal_and_complete(case: Case, data: st.DataObject) -> None:
    edits = given_all(data.draw(st.permutations(case.edits)))
    found = edits.keys()
    for key in found:
        history = edits.history(key)
        assert sorted(signed.id for signed in history) == sorted(one.id for one in case.edits if one.edit.key == key)
        for place, signed in enumerate(history):
            assert {*signed.edit.parents} <= {one.id for one in history[:place]}


@given(case=cases(), key=keys)
def test_a_draft_that_names_the_heads_becomes_the_only_head(case: Case, key: str) -> None:
    edits = given_all(case.edits)
    draft = Draft(key, "PUT", {}, tuple(signed.id for signed in edits.heads(key)))
    assert check(edits, draft) is None
    signed = ROOT.write(draft, FIRST.id, 0, 7)
    edits.add([signed])
    assert edits.heads(key) == (signed,)
    assert key not in {conflict.key for conflict in effective(edits).conflicts}


# -- exchange -----------------------------------------------------------------------------------------------------


def exchange(one: EditSet, other: EditSet, data: st.DataObject | None = None) -> None:
    """Until nobody has anything to say. With data, messages get lost, come twice and overtake each other."""
    both = (one, other)
    pile = [(place, sync.write(sync.heartbeat(both[place]))) for place in (0, 1)]
    for _ in range(100):
        if not pile:
            return
        at = data.draw(st.integers(0, len(pile) - 1)) if data is not None else 0
        fate = data.draw(st.sampled_from(["arrives", "is lost", "comes again"])) if data is not None else "arrives"
        sender, written = pile[at] if fate == "comes again" else pile.pop(at)
        if fate == "is lost":
            continue
        receiver, message = 1 - sender, sync.read(written)
        if isinstance(message, Edits):
            new = both[receiver].add(message.edits).new
            # Among them may be orphans that waited here, and that the other has never heard of.
            answers = sync.missing(both[receiver]) + (sync.news(both[receiver], new) if new else [])
        else:
            answers = sync.answer(both[receiver], message)
        pile += [(receiver, sync.write(answer)) for answer in answers]
    assert data is not None, "without faults it comes to an end"


@given(case=cases(), data=st.data())
def test_one_exchange_is_enough_whatever_happened_before(case: Case, data: st.DataObject) -> None:
    one, other = (given_all(data.draw(st.lists(st.sampled_from(case.edits), max_size=20))) for _ in range(2))
    held = {signed.id for edits in (one, other) for signed in edits}
    exchange(one, other, data)
    exchange(one, other)
    assert one.digest == other.digest
    assert effective(one).to_bytes() == effective(other).to_bytes()
    assert held <= {signed.id for signed in one} <= {signed.id for signed in case.edits}


# -- reading anything ---------------------------------------------------------------------------------------------

VALID = GRANTS[1].data


@st.composite
def hit(draw: st.DrawFn, right: bytes) -> bytes:
    """Bytes that were fine until somebody cut them, doubled a part of them or hit a few."""
    wrong = bytearray(right)
    for _ in range(draw(st.integers(1, 3))):
        at = draw(st.integers(0, len(wrong)))
        end = draw(st.integers(at, min(len(wrong), at + 30)))
        how = draw(st.sampled_from(["cut", "double", "hit", "insert"]))
        if how == "cut":
            del wrong[at:end]
        elif how == "double":
            wrong[at:at] = wrong[at:end]
        elif how == "hit" and at < len(wrong):
            wrong[at] = draw(st.integers(0, 255))
        else:
            wrong[at:at] = draw(
                st.sampled_from([b'"', b"\\", b"{", b"[" * 50, b",", b"\\ud800", b"NaN", b"9" * 40, b" "])
            )
    return bytes(wrong)


@given(data=st.binary(max_size=200) | hit(VALID))
@example(VALID)
@example(b"[" * 100_000)
def test_whatever_the_bytes_are_there_is_an_edit_or_a_typed_error(data: bytes) -> None:
    try:
        read = edit.read(data)
    except ProtocolError:
        return
    assert edit.write(read) == data


@given(fields=st.fixed_dictionaries({}, optional=dict.fromkeys(Edit.__struct_fields__, value)), op=value)
def test_an_edit_of_any_json_values_is_written_and_read_back_or_refused(fields: dict[str, Any], op: Any) -> None:
    base = {name: getattr(GRANTS[1].edit, name) for name in Edit.__struct_fields__}
    try:
        written = edit.write(Edit(**{**base, "op": op, **fields}))
    except ProtocolError:
        return
    assert edit.write(edit.read(written)) == written


@given(anything=value | plausible)
def test_any_json_value_survives_the_way_through_an_edit(anything: Any) -> None:
    signed = ROOT.write(Draft("odd", "PUT", anything, ()), FIRST.id, 0, 0)
    again = SignedEdit(signed.data, signed.signature).edit.value
    assert again == anything
    assert msgspec.json.encode(again, order="sorted") == msgspec.json.encode(anything, order="sorted")


MESSAGES = [
    sync.write(message)
    for message in (
        Summary(3, "a" * 64),
        sync.answer(given_all(GRANTS), Summary(3, "a" * 64))[0],
        Ids({7: [b"x" * 32]}),
        Want([b"x" * 32, b"y" * 32]),
        Edits(GRANTS),
    )
]


@given(data=st.binary(max_size=100) | st.sampled_from(MESSAGES).flatmap(hit))
def test_whatever_a_peer_sends_there_is_an_answer_or_a_typed_error(data: bytes) -> None:
    edits = given_all(GRANTS)
    try:
        message = sync.read(data)
    except ProtocolError:
        return
    if isinstance(message, Edits):
        edits.add(message.edits)
    else:
        for answer in sync.answer(edits, message):
            assert sync.read(sync.write(answer)) == answer


@given(key=keys | text, anything=value | plausible)
def test_schema_reads_anything(key: str, anything: Any) -> None:
    view = schema.read(schema.subject(key), anything)
    assert view.value is not None or view.warnings


@given(case=cases(max_size=20))
@settings(max_examples=examples(25))
def test_whatever_the_edits_are_they_amount_to_something(case: Case) -> None:
    config = effective(given_all(case.edits))
    for name in [*config.families, "nobody"]:
        order = config.fallback_order(name)
        assert len(set(order)) == len(order)
        assert name not in order
    for identity in config.brokers:
        book = book_of(config, identity, [], 1)
        assert book is not None
        assert book.worker_config("w", ["x"])
        assert config.fallbacks_of(identity) is not None
