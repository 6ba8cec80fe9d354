"""The set of edits that a broker holds: decides what belongs to it. It only grows, and merging is union.

It is causally closed: an edit is there only if its parents and its grants are. So an edit that arrives too early waits
as an orphan. Whether an edit belongs here depends on the edit and on those that it names, never on the time, the order
or the sender: that is why sets that were given the same edits are equal, in whatever order and however often they
arrived.

The chain of trust: the network's id is the hash of the root's public key. The root's own `broker/<identity>` edit holds
that key and is signed with it. Any other edit names as its grant the edit that made its broker's public key known, and
likewise those that made known the keys of the admin whose edit it is. What a broker signs after it was forgotten, and
what nobody had a right to say, still belongs here, but does not count; see `revocation` and `judgement`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Final

from famulus.core.config.buckets import Buckets
from famulus.core.config.edit import BAD_EDIT, PROVEN_AS, SIGNED_AS, Edit, SignedEdit, named_by, public_key_in
from famulus.core.config.judgement import Evidence, Memory, judge
from famulus.core.config.order import in_causal_order
from famulus.core.config.orphans import Orphans
from famulus.core.config.revocation import PREFIX as REVOKED
from famulus.core.config.revocation import Revocations, heads_among, revocations
from famulus.core.config.schema import subject
from famulus.errors import ProtocolError

#: Public key, message, signature: did the owner of that key sign it? A malformed key or signature means no.
Verify = Callable[[str, bytes, bytes], bool]

FORGOTTEN: Final = "it was forgotten before"


@dataclass(frozen=True, slots=True)
class Added:
    """What became of the edits that were given to a set; those that it already had are in none of these."""

    #: In causal order, including orphans that waited for one of them.
    new: tuple[SignedEdit, ...] = ()
    #: Why some were refused.
    refused: tuple[str, ...] = ()
    #: The ids of those that wait for edits that they build upon.
    waiting: tuple[str, ...] = ()


class EditSet:
    def __init__(self, network: str, verify: Verify) -> None:
        self.network = network
        self.buckets = Buckets()
        self._verify = verify
        self._evidence = Evidence()
        #: In the order of their arrival, which is a causal one.
        self._edits = self._evidence.edits
        self._by_key = self._evidence.by_key
        self._heads: dict[str, dict[str, SignedEdit]] = {}
        self._orphans = Orphans()
        self._anybody_revoked = False
        self._needs_proofs = False
        self._revocations = Revocations()
        #: Why edits do not count, by their ids; None if that has to be worked out again.
        self._void: Mapping[str, str] | None = {}
        #: For judging all edits, and for judging those that forgotten brokers did not make.
        self._memories = (Memory(), Memory())

    # -- growing ------------------------------------------------------------------------------------------------

    def add(self, edits: Iterable[SignedEdit]) -> Added:
        """Take the valid ones. Adding them again, or in another order, makes no difference."""
        new: list[SignedEdit] = []
        refused: list[str] = []
        waiting: list[SignedEdit] = []
        ready = deque(edits)
        while ready:
            signed = ready.popleft()
            if signed.id in self._edits:
                continue
            try:
                missing = self._missing(signed.edit)
                if missing:
                    self._orphans.put(signed, missing)
                    waiting.append(signed)
                    continue
                signer = self._check(signed)
            except ProtocolError as error:
                refused.append(str(error))
                continue
            self._take(signed, signer)
            new.append(signed)
            ready.extendleft(self._orphans.release(signed.id))
        still = dict.fromkeys(signed.id for signed in waiting if signed in self._orphans)
        return Added(tuple(new), tuple(refused), tuple(still))

    def _missing(self, edit: Edit) -> set[str]:
        if edit.network != self.network:
            raise _not_valid("it belongs to another network")
        return {edit_id for edit_id in named_by(edit) if edit_id not in self._edits}

    def _check(self, signed: SignedEdit) -> str:
        """The public key that signed it."""
        edit = signed.edit
        if any(self._edits[parent].edit.key != edit.key for parent in edit.parents):
            raise _not_valid("a parent is an edit of another key")
        public_key = self._granted_key(edit) if edit.grant else _root_key(edit)
        if not self._verify(public_key, SIGNED_AS + signed.data, signed.signature):
            raise _not_valid("the signature is not that of its broker")
        self._check_proofs(signed)
        return public_key

    def _check_proofs(self, signed: SignedEdit) -> None:
        """Checks that its author made it. Whether the author may is another question."""
        edit = signed.edit
        if len(signed.proofs) != len(edit.author_grants):
            raise _not_valid("it does not have one proof for each grant of its author")
        for grant_id, proof in zip(edit.author_grants, signed.proofs, strict=True):
            grant = self._edits[grant_id].edit
            about = subject(grant.key)
            if about.kind != "admin" or about.name != edit.author:
                raise _not_valid("a grant of its author is about somebody else")
            public_key = public_key_in(grant)
            if not public_key or not self._verify(public_key, PROVEN_AS + signed.data, proof):
                raise _not_valid("the proof is not that of its author")

    def _granted_key(self, edit: Edit) -> str:
        grant = self._edits[edit.grant].edit
        public_key = public_key_in(grant)
        if grant.key != f"broker/{edit.broker}" or not public_key:
            raise _not_valid("its grant does not make the public key of its broker known")
        return public_key

    def _take(self, signed: SignedEdit, signer: str) -> None:
        key = signed.edit.key
        self._evidence.add(signed, signer)
        self._anybody_revoked = self._anybody_revoked or key.startswith(REVOKED)
        self._needs_proofs = self._needs_proofs or signed.edit.proofs_needed
        self._void = None if self._anybody_revoked or self._needs_proofs else {}
        heads = self._heads.setdefault(key, {})
        for parent in signed.edit.parents:
            heads.pop(parent, None)
        # Its children cannot be here before it, so nothing in the set names it yet.
        heads[signed.id] = signed
        self.buckets.add(signed.id)

    # -- looking ------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """How many edits there are. For people; comparisons use the digest."""
        return len(self._edits)

    @property
    def digest(self) -> str:
        return self.buckets.digest

    def __len__(self) -> int:
        return len(self._edits)

    def __contains__(self, edit_id: object) -> bool:
        return edit_id in self._edits

    def __iter__(self) -> Iterator[SignedEdit]:
        """All edits, in a causal order; another set with the same edits may have a different one."""
        return iter(self._edits.values())

    def get(self, edit_id: str) -> SignedEdit | None:
        return self._edits.get(edit_id)

    def keys(self) -> list[str]:
        """The keys that have at least one edit that counts."""
        void = self.void
        return sorted(key for key, edits in self._by_key.items() if any(each.id not in void for each in edits))

    def heads(self, key: str) -> tuple[SignedEdit, ...]:
        """The edits of this key that no other names as its parent, sorted by id. More than one is a conflict."""
        heads = self._heads.get(key, {})
        void = self.void
        if void and any(signed.id in void for signed in self._by_key.get(key, ())):
            heads = heads_among(self._by_key[key], void)
        return tuple(signed for _, signed in sorted(heads.items()))

    @property
    def revocations(self) -> Revocations:
        """Which brokers' keys were revoked, and which edits do not count because of that."""
        self._judge()
        return self._revocations

    @property
    def void(self) -> Mapping[str, str]:
        """Why edits do not count, by their ids."""
        return self._judge()

    @property
    def needs_proofs(self) -> bool:
        """Whether edits of this network need their authors' proofs; not if it was made before there were any."""
        return self._needs_proofs

    def objection(self, new: Sequence[SignedEdit]) -> str:
        """Why one of these edits would not count if it were here; empty if all would."""
        if not self._needs_proofs:
            return ""
        evidence = self._evidence.with_more(new, [self._granted_key(signed.edit) for signed in new])
        _, void = _verdict(evidence, (self._memories[0].copy(), self._memories[1].copy()))
        return next((f"{signed.edit.key}: {void[signed.id]}" for signed in new if signed.id in void), "")

    def _judge(self) -> Mapping[str, str]:
        if self._void is None:
            self._revocations, self._void = _verdict(self._evidence, self._memories)
        return self._void

    def signed_by(self, public_key: str) -> list[str]:
        """The ids of the edits signed with this key that count."""
        void = self.void
        return [each for each, signer in self._evidence.signers.items() if signer == public_key and each not in void]

    def history(self, key: str) -> list[SignedEdit]:
        """All edits of this key: each after its parents, otherwise by clock, so in the same order on every broker."""
        return list(in_causal_order(self._by_key.get(key, ()), lambda signed: (signed.edit.hlc,)))

    def grant_of(self, broker: str, public_key: str) -> str:
        """What an edit that this broker accepts now must name as its grant; empty if it may not accept any."""
        heads = [signed for signed in self.heads(f"broker/{broker}") if public_key_in(signed.edit) == public_key]
        return max(((signed.edit.hlc, signed.id) for signed in heads), default=(0, ""))[1]

    @property
    def orphans(self) -> int:
        return len(self._orphans)

    def missing(self) -> list[str]:
        """Edits that orphans wait for."""
        return self._orphans.missing()


def network_of(public_key: str) -> str:
    """The id of the network whose root has this public key, in hex; empty if that is not a key."""
    try:
        raw = bytes.fromhex(public_key)
    except ValueError:
        return ""
    # Only one spelling is allowed: `fromhex` also accepts capitals and spaces.
    return sha256(raw).hexdigest() if raw.hex() == public_key else ""


def _root_key(edit: Edit) -> str:
    public_key = public_key_in(edit)
    if edit.key != f"broker/{edit.broker}" or edit.parents or network_of(public_key) != edit.network:
        raise _not_valid("it has no grant, and is not the root's own")
    return public_key


def _verdict(evidence: Evidence, memories: tuple[Memory, Memory]) -> tuple[Revocations, dict[str, str]]:
    """Who was revoked; and why edits do not count, by their ids."""
    without_say = judge(evidence, memories[0])
    if not any(key.startswith(REVOKED) for key in evidence.by_key):
        return Revocations(), without_say
    revoked = revocations(evidence.edits, evidence.signers, without_say.keys())
    if revoked.void:
        without_say = judge(replace(evidence, void=revoked.void), memories[1])
    return revoked, {**dict.fromkeys(revoked.void, FORGOTTEN), **without_say}


def _not_valid(sentence: str) -> ProtocolError:
    return ProtocolError(BAD_EDIT, sentence)
