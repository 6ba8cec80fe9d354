"""Decides which edits do not count because the broker that signed them was forgotten.

To forget a broker is to write `revoked/<its public key>/<part>`, with the edits signed with that key that were known by
then: they are kept. Any other edit signed with that key is void, and so is one signed with a key that only such edits
made known. It stays in the set, since sets must be able to become equal, whoever heard what first; but it is nobody's
head, and it is listed.

A revocation is an edit itself, and the forgotten broker could write some, too. So no broker can take back its own
revocation, and one that was forgotten by a senior broker has no say: the root is the most senior, then those that it
made known, and so on. Brokers of the same rank can forget each other, until somebody takes that back.

Pure, and independent of the order of the edits: equal sets give the same verdict.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from famulus.core.config.edit import Edit, SignedEdit, public_key_in

PREFIX: Final = "revoked/"
#: How much of an id is kept: nobody can find another edit whose id begins the same way.
ID_CHARS: Final = 24
#: Per edit, which has a size limit; the rest goes into further parts.
KEPT_MAX: Final = 2000


@dataclass(frozen=True)
class Revocations:
    #: The beginnings of the ids of the edits that still count, by public key.
    kept: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: The ids of the edits that do not count.
    void: frozenset[str] = frozenset()


def revocations(
    edits: Mapping[str, SignedEdit], signers: Mapping[str, str], without_say: Collection[str] = ()
) -> Revocations:
    """`edits` by id; `signers`: the public keys that signed them; `without_say`: nobody had a right to make these."""
    counted = _counted(edits, signers, without_say)
    kept = _in_force(counted)
    known = broker_ranks(edits, signers, kept)
    void = [
        edit_id
        for edit_id, signer in signers.items()
        # A revocation that has a say is not void even if its signer is forgotten: an admin must be able to end it.
        if edit_id not in counted and (_is_void(edit_id, signer, kept) or signer not in known)
    ]
    return Revocations(kept, frozenset(void))


def heads_among(edits: Iterable[SignedEdit], void: Collection[str]) -> dict[str, SignedEdit]:
    """The edits of one key that count and that no other that counts builds upon, not even by way of void ones."""
    by_id = {signed.id: signed for signed in edits}
    heads = {edit_id: signed for edit_id, signed in by_id.items() if edit_id not in void}
    passed: set[str] = set()
    for edit_id in list(heads):
        for replaced in replaced_by(by_id[edit_id], by_id, void, passed):
            heads.pop(replaced, None)
    return heads


def replaced_by(
    signed: SignedEdit, edits: Mapping[str, SignedEdit], void: Container[str], passed: set[str]
) -> Iterator[str]:
    """The ids of its parents; and for a parent that does not count, also those that the parent wanted to replace.

    `passed` are void ones that were followed before: what they lead to has been replaced, and is not followed again.
    """
    waiting = list(signed.edit.parents)
    while waiting:
        parent = waiting.pop()
        yield parent
        if parent in void and parent not in passed:
            passed.add(parent)
            waiting += edits[parent].edit.parents


def values(identity: str, family: str, edit_ids: Iterable[str]) -> list[dict[str, object]]:
    """What to write about a broker that is forgotten, one value for each part."""
    kept = sorted(edit_id[:ID_CHARS] for edit_id in edit_ids)
    parts = [kept[at : at + KEPT_MAX] for at in range(0, len(kept), KEPT_MAX)] or [[]]
    return [{"identity": identity, "family": family, "kept": part} for part in parts]


def revoked_key(key: str) -> str:
    """The public key that a key of the config is about; empty if it is not a revocation."""
    return key.removeprefix(PREFIX).partition("/")[0] if key.startswith(PREFIX) else ""


def _counted(
    edits: Mapping[str, SignedEdit], signers: Mapping[str, str], without_say: Collection[str]
) -> dict[str, SignedEdit]:
    """The edits about revocations that have a say, most senior first."""
    about = {
        edit_id: signed
        for edit_id, signed in edits.items()
        if signed.edit.key.startswith(PREFIX) and edit_id not in without_say
    }
    ranks = broker_ranks(edits, signers, {})
    counted: dict[str, SignedEdit] = {}
    for rank in sorted({ranks[signers[edit_id]] for edit_id in about}):
        kept = _in_force(counted)
        counted |= {
            edit_id: signed
            for edit_id, signed in about.items()
            if ranks[signers[edit_id]] == rank
            and revoked_key(signed.edit.key) != signers[edit_id]
            and not _is_void(edit_id, signers[edit_id], kept)
        }
    return counted


def _in_force(counted: Mapping[str, SignedEdit]) -> dict[str, frozenset[str]]:
    replaced = {parent for signed in counted.values() for parent in signed.edit.parents}
    kept: dict[str, frozenset[str]] = {}
    for edit_id, signed in counted.items():
        if edit_id not in replaced and signed.edit.op == "PUT":
            public_key = revoked_key(signed.edit.key)
            kept[public_key] = kept.get(public_key, frozenset()) | _kept_in(signed.edit)
    return kept


def _kept_in(edit: Edit) -> frozenset[str]:
    kept = edit.value.get("kept") if isinstance(edit.value, dict) else None
    return frozenset(each for each in kept if isinstance(each, str)) if isinstance(kept, list) else frozenset()


def _is_void(edit_id: str, signer: str, kept: Mapping[str, frozenset[str]]) -> bool:
    return signer in kept and edit_id[:ID_CHARS] not in kept[signer]


def broker_ranks(
    edits: Mapping[str, SignedEdit], signers: Mapping[str, str], kept: Mapping[str, frozenset[str]]
) -> dict[str, int]:
    """How many introductions each key is away from the root's; void introductions lead nowhere."""
    introduced: dict[str, set[str]] = {}
    root = ""
    for edit_id, signed in edits.items():
        edit = signed.edit
        if not edit.grant:
            root = signers[edit_id]
        public_key = public_key_in(edit) if edit.key.startswith("broker/") else ""
        if public_key and not _is_void(edit_id, signers[edit_id], kept):
            introduced.setdefault(signers[edit_id], set()).add(public_key)
    ranks = {root: 0}
    waiting = deque([root])
    while waiting:
        one = waiting.popleft()
        for other in introduced.get(one, ()):
            if other not in ranks:
                ranks[other] = ranks[one] + 1
                waiting.append(other)
    return ranks
