"""How two brokers come to hold the same edits. Decides what to answer; keeps nothing between two messages.

    A                                      B
    | Summary(version, digest)       --->  |   at every heartbeat, and when something is new
    |  <---  Summary(..., 256 hashes)      |   only if B's digest is another one
    | Ids(of the buckets that differ) -->  |
    |  <---  Want(what B lacks)            |
    |  <---  Edits(what A lacks)           |
    | Edits(what B wants)            --->  |

If anything is lost, the next heartbeat starts over; what comes twice or late does no harm, since edits are only ever
added. Both sides may begin at once. Edits travel in causal order, so those that do not fit into one exchange are the
last ones: nothing that arrives has to wait for them, and the next exchange brings more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Final

from msgspec import DecodeError, Meta, Struct
from msgspec.msgpack import Decoder, Encoder

from famulus.core.config.authority import PREFIX as ADMIN
from famulus.core.config.buckets import BUCKETS
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.errors import ProtocolError
from famulus.wire import limits, reasons

#: Per message. More than a network makes in decades; if the buckets that differ hold more, some of them wait.
IDS_MAX: Final = 100_000
#: Per message: how many edits, and how many bytes, unless a single edit has more.
EDITS_MAX: Final = 1000
EDITS_BYTES_MAX: Final = 1024 * 1024
#: Per answer; the rest waits for the next exchange.
EDITS_MESSAGES_MAX: Final = 16
MESSAGE_BYTES_MAX: Final = 4 * 1024 * 1024

_Digest = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]
_Hash = Annotated[bytes, Meta(max_length=32)]
_Id = Annotated[bytes, Meta(min_length=32, max_length=32)]
_Number = Annotated[int, Meta(ge=0, lt=BUCKETS)]


class Summary(Struct, frozen=True, array_like=True, tag="summary"):
    #: For people; comparisons use the digest.
    version: Annotated[int, Meta(ge=0, le=limits.INTEGER_MAX)]
    digest: _Digest
    #: One for each bucket, or none.
    buckets: Annotated[list[_Hash], Meta(max_length=BUCKETS)] = []


class Ids(Struct, frozen=True, array_like=True, tag="ids"):
    """All ids that the sender has in each of these buckets."""

    buckets: dict[_Number, list[_Id]]


class Want(Struct, frozen=True, array_like=True, tag="want"):
    ids: list[_Id]


class Edits(Struct, frozen=True, array_like=True, tag="edits"):
    edits: Annotated[list[SignedEdit], Meta(max_length=EDITS_MAX)]


Message = Summary | Ids | Want | Edits

_decode = Decoder(Message).decode
write = Encoder().encode


def read(data: bytes) -> Message:
    """The message that these bytes stand for, or a ProtocolError."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise ProtocolError(reasons.TOO_LARGE, f"a message about the config has at most {MESSAGE_BYTES_MAX} bytes")
    try:
        message: Message = _decode(data)
    except (DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _bad_message(f"not a message about the config ({error})") from None
    if isinstance(message, Summary) and len(message.buckets) not in (0, BUCKETS):
        raise _bad_message(f"a summary has {BUCKETS} buckets, or none")
    return message


# -- to begin with ------------------------------------------------------------------------------------------------


def heartbeat(edits: EditSet) -> Summary:
    return Summary(edits.version, edits.digest)


def news(edits: EditSet, new: Sequence[SignedEdit]) -> list[Message]:
    """What to publish when there are new edits. It may get lost: only heartbeats make sure that everybody gets them.

    What passwords could be tried on is not published: whoever lacks it notices by the summary, and asks us.
    """
    messages: list[Message] = list(_packed(signed for signed in new if not signed.edit.key.startswith(ADMIN)))
    # Many at once are not news but the end of a long absence: the others mostly have them already.
    return [*messages, heartbeat(edits)] if len(messages) == 1 else [heartbeat(edits)]


# -- answers ------------------------------------------------------------------------------------------------------


def answer(edits: EditSet, message: Summary | Ids | Want) -> list[Message]:
    match message:
        case Summary():
            return _on_summary(edits, message)
        case Ids():
            return _on_ids(edits, message)
        case Want():
            return _send(edits, {edit_id.hex() for edit_id in message.ids})


def missing(edits: EditSet) -> list[Message]:
    """What to ask for when edits arrived before those that they build upon."""
    ids = edits.missing()[:IDS_MAX]
    return [Want([bytes.fromhex(edit_id) for edit_id in ids])] if ids else []


def _on_summary(edits: EditSet, theirs: Summary) -> list[Message]:
    if theirs.digest == edits.digest:
        return []
    if not theirs.buckets:
        return [Summary(edits.version, edits.digest, edits.buckets.hashes)]
    different = [
        number
        for number, (ours, other) in enumerate(zip(edits.buckets.hashes, theirs.buckets, strict=True))
        if ours != other
    ]
    return [_ids_of(edits, different)] if different else []


def _ids_of(edits: EditSet, numbers: list[int]) -> Ids:
    buckets: dict[int, list[bytes]] = {}
    count = 0
    for number in numbers:
        ids = edits.buckets.ids(number)
        if buckets and count + len(ids) > IDS_MAX:
            break
        buckets[number] = [bytes.fromhex(edit_id) for edit_id in ids]
        count += len(ids)
    return Ids(buckets)


def _on_ids(edits: EditSet, theirs: Ids) -> list[Message]:
    ours = {edit_id for number in theirs.buckets for edit_id in edits.buckets.ids(number)}
    others = {edit_id.hex() for ids in theirs.buckets.values() for edit_id in ids}
    lacking = sorted(others - ours)[:IDS_MAX]
    want: list[Message] = [Want([bytes.fromhex(edit_id) for edit_id in lacking])] if lacking else []
    return [*want, *_send(edits, ours - others)]


def _send(edits: EditSet, ids: set[str]) -> list[Message]:
    """Those of them that we have, in causal order, up to the limit."""
    return list(_packed(signed for signed in edits if signed.id in ids)) if ids else []


def _packed(edits: Iterable[SignedEdit]) -> Iterator[Edits]:
    pack: list[SignedEdit] = []
    size = packs = 0
    for signed in edits:
        size += len(signed.data)
        if pack and (len(pack) == EDITS_MAX or size > EDITS_BYTES_MAX):
            yield Edits(pack)
            packs += 1
            if packs == EDITS_MESSAGES_MAX:
                return
            pack, size = [], len(signed.data)
        pack.append(signed)
    if pack:
        yield Edits(pack)


def _bad_message(sentence: str) -> ProtocolError:
    return ProtocolError(reasons.BAD_FRAMES, sentence[: limits.REASON_CHARS_MAX])
