"""An edit: one permanent change of one key. Knows its bytes, its limits and its id, but not who may make it.

There is only one way to write an edit: JSON without spaces, its fields in the order of the struct, the keys of objects
sorted. Its id is the SHA-256 of these bytes, so nobody can say the same thing twice in different words. Whatever the
bytes are, reading them gives an edit or a `ProtocolError` that blames the sender.

It has two signers: the broker that accepted it, and the admin whose edit it is, with a key derived from the password.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from hashlib import sha256
from typing import Annotated, Any, Final, Literal

from msgspec import DecodeError, Meta, Struct
from msgspec.json import Decoder, Encoder

from famulus.errors import ProtocolError
from famulus.wire import limits, reasons

#: The code of the reason why an edit is refused.
BAD_EDIT: Final = "bad_edit"

#: Fits `admin/` and the names of a family and an admin.
KEY_CHARS_MAX: Final = 2 * limits.NAME_CHARS_MAX + 32
VALUE_BYTES_MAX: Final = 64 * 1024
VALUE_NESTING_MAX: Final = 8
#: More heads than this are merged in several steps.
PARENTS_MAX: Final = 1000
#: The value, the parents, and around them a key and names, in which a character takes at most 4 bytes.
EDIT_BYTES_MAX: Final = VALUE_BYTES_MAX + 67 * PARENTS_MAX + 10 * 1024
SIGNATURE_BYTES_MAX: Final = 512
#: Families that one admin can speak for at once.
AUTHOR_GRANTS_MAX: Final = 16

#: What is signed begins with this, so that no other signature of a broker passes for one of an edit.
SIGNED_AS: Final = b"famulus edit 1\n"
#: And what the author signs begins with this, so that neither passes for the other.
PROVEN_AS: Final = b"famulus edit of an admin 1\n"

Signer = Callable[[bytes], bytes]

_Hash = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Grant = Annotated[str, Meta(pattern=r"^([0-9a-f]{64})?\Z")]
_Name = Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
_Key = Annotated[str, Meta(min_length=1, max_length=KEY_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
_Instant = Annotated[int, Meta(ge=0, le=limits.INTEGER_MAX)]
_Nonce = Annotated[str, Meta(pattern=r"^[0-9a-f]{16,64}\Z")]


class Edit(Struct, frozen=True, omit_defaults=True):
    #: The network's id: the SHA-256 of its root's public key.
    network: _Hash
    key: _Key
    op: Literal["PUT", "DEL"]
    #: Any JSON value; null for a DEL.
    value: Any
    #: The edits of this key that the author had seen and wants to replace.
    parents: Annotated[tuple[_Hash, ...], Meta(max_length=PARENTS_MAX)]
    #: The admin's name.
    author: _Name
    #: The broker that accepted the edit, and signs it.
    broker: _Name
    #: The edit that made that broker's public key known; empty in the root's own edit only.
    grant: _Grant
    #: A hybrid logical clock: breaks ties, orders edits where a right depends on it, and is shown to people.
    hlc: _Instant
    #: Random, so that a broker that was restored from a backup never makes the same edit again.
    nonce: _Nonce
    #: The edits that made the author's public keys known, one for each family that it speaks for as an admin. Without
    #: any, the edit is the broker's alone, as when another broker joins.
    author_grants: Annotated[tuple[_Hash, ...], Meta(max_length=AUTHOR_GRANTS_MAX)] = ()
    #: In the root's own edit only: in this network every edit needs its author's proof and rights in order to count.
    proofs_needed: bool = False


class SignedEdit(Struct, frozen=True, array_like=True, dict=True):
    """What travels between brokers and is stored on their disks."""

    data: Annotated[bytes, Meta(max_length=EDIT_BYTES_MAX)]
    signature: Annotated[bytes, Meta(max_length=SIGNATURE_BYTES_MAX)]
    #: The author's signatures, in the order of `author_grants`.
    proofs: Annotated[
        tuple[Annotated[bytes, Meta(max_length=SIGNATURE_BYTES_MAX)], ...], Meta(max_length=AUTHOR_GRANTS_MAX)
    ] = ()

    @cached_property
    def id(self) -> str:
        return sha256(self.data).hexdigest()

    @cached_property
    def edit(self) -> Edit:
        return read(self.data)


_decode = Decoder(Edit).decode
_encode = Encoder(order="deterministic").encode


def read(data: bytes) -> Edit:
    """The edit that these bytes stand for, or a ProtocolError."""
    if len(data) > EDIT_BYTES_MAX:
        raise ProtocolError(reasons.TOO_LARGE, f"an edit has at most {EDIT_BYTES_MAX} bytes")
    try:
        edit = _decode(data)
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _bad_edit(f"not an edit ({error})") from None
    if list(edit.parents) != sorted(set(edit.parents)):
        raise _bad_edit("the parents are not sorted, or one appears twice")
    if list(edit.author_grants) != sorted(set(edit.author_grants)):
        raise _bad_edit("the author's grants are not sorted, or one appears twice")
    if edit.proofs_needed and edit.grant:
        raise _bad_edit("only the root's own edit says whether proofs are needed")
    if edit.op == "DEL" and edit.value is not None:
        raise _bad_edit("a DEL has no value")
    _check_value(edit.value, 1)
    if len(_encode(edit.value)) > VALUE_BYTES_MAX:
        raise ProtocolError(reasons.TOO_LARGE, f"a value has at most {VALUE_BYTES_MAX} bytes")
    if _encode(edit) != data:
        raise _bad_edit("not written in the one canonical way")
    return edit


def write(edit: Edit) -> bytes:
    """The canonical bytes of an edit, or a ProtocolError if there are none."""
    try:
        data = _encode(edit)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise _bad_edit(f"cannot be written ({error})") from None
    # The encoder also accepts bytes, sets, NaN and more, and turns them into something else.
    if read(data) != edit:
        raise _bad_edit("the value is not a JSON value")
    return data


def sign(edit: Edit, signer: Signer, provers: Mapping[str, Signer] | None = None) -> SignedEdit:
    """`provers` are the author's signers, by the grants that the edit names."""
    data = write(edit)
    proofs = tuple((provers or {})[grant](PROVEN_AS + data) for grant in edit.author_grants)
    return SignedEdit(data, signer(SIGNED_AS + data), proofs)


def public_key_in(edit: Edit) -> str:
    """The public key that an edit of a broker or an admin makes known; empty if there is none."""
    public_key = edit.value.get("public_key") if isinstance(edit.value, dict) else None
    return public_key if isinstance(public_key, str) else ""


def named_by(edit: Edit) -> list[str]:
    """The edits that this one builds upon: it needs them to be there."""
    return [*edit.parents, *edit.author_grants, *([edit.grant] if edit.grant else [])]


def _check_value(value: object, depth: int) -> None:
    if isinstance(value, int):
        if not -limits.INTEGER_MAX <= value <= limits.INTEGER_MAX:
            raise _bad_edit("an integer is too large")
    elif isinstance(value, dict | list):
        if depth > VALUE_NESTING_MAX:
            raise _bad_edit(f"nested more than {VALUE_NESTING_MAX} deep")
        for inner in value.values() if isinstance(value, dict) else value:
            _check_value(inner, depth + 1)


def _bad_edit(sentence: str) -> ProtocolError:
    return ProtocolError(BAD_EDIT, sentence[: limits.REASON_CHARS_MAX])
