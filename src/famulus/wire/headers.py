"""Headers: flat JSON objects in bytes, to typed and valid values, and back.

`read_fields` is strict where JSON readers commonly are not: duplicate keys, NaN, huge integers and deep nesting
are bad headers. Reading a header costs its sender nothing, so its values are counted before it is read.
`read_message` turns fields into the one struct that (request, type) stands for. Whatever the bytes are, the result is a
value or a `ProtocolError` that blames the sender; nothing else leaves this module.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Any, Final, Literal

import msgspec

from famulus.errors import ProtocolError
from famulus.wire import limits, reasons

Fields = dict[str, Any]

_Name = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.NAME_CHARS_MAX, pattern=r"^[^\x00-\x1f\x7f]+\Z")]
# No pattern here: a name that no worker could offer is simply not found, and a pattern would slow down every task.
_Asked = Annotated[str, msgspec.Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)]
_MessageId = Annotated[str, msgspec.Meta(max_length=limits.MESSAGE_ID_CHARS_MAX)]
_Token = Annotated[str, msgspec.Meta(max_length=limits.TOKEN_CHARS_MAX)]
_Priority = Annotated[int, msgspec.Meta(ge=0, le=limits.PRIORITY_MAX)]
_Timeout = Annotated[int, msgspec.Meta(ge=1)]
_Heartbeat = Annotated[int, msgspec.Meta(ge=1)]
_Services = Annotated[list[_Name], msgspec.Meta(min_length=1, max_length=limits.SERVICES_PER_WORKER_MAX)]
_Via = Annotated[list[_Name], msgspec.Meta(max_length=limits.VIA_MAX)]
_Slots = Annotated[int, msgspec.Meta(ge=1, le=limits.SLOTS_MAX)]


class Message(msgspec.Struct, frozen=True):
    """What a header says; each kind of message adds its own fields."""


class TaskRequest(Message, frozen=True):
    service: _Asked
    message_id: _MessageId = ""
    timeout_ms: _Timeout | None = None
    priority: _Priority = limits.PRIORITY_DEFAULT
    attempt: int = 1
    #: The brokers that it has come through, if it was handed over.
    via: _Via = []
    #: Random, and its client's own: what is remembered about tasks with an id of their own is kept under it.
    client_token: _Token = ""
    #: For whom another broker passes it on; only from one, and only where ports have keys.
    principal: Annotated[str, msgspec.Meta(max_length=limits.NAME_CHARS_MAX)] = ""
    #: What the body is, such as application/json, and also that of its answer; both sides may know without it.
    content_type: Annotated[str, msgspec.Meta(max_length=limits.NAME_CHARS_MAX)] = ""
    #: The client's own, for the function.
    headers: dict[str, str] | msgspec.UnsetType = msgspec.UNSET
    #: Tasks of a service whose policy is `key` that have the same one go to the same worker.
    key: Annotated[str, msgspec.Meta(max_length=limits.NAME_CHARS_MAX)] = ""
    #: Running it twice does no harm: it is delivered at least once, whatever its service says.
    idempotent: bool = False
    #: A second attempt at the task whose envelope is this one's without `HEDGE_ENDING`: at another worker, or none.
    hedge: bool = False
    #: From a broker to a worker, if the client sent headers of its own: the whole time that it had when it came.
    allowed_ms: int = 0
    #: It is given to nobody before so much time has passed; its time-out begins then.
    delay_ms: Annotated[int, msgspec.Meta(ge=0, le=limits.DELAY_MS_MAX)] = 0
    #: Its client wants the answer as a stream, and reads so many parts before it says that it wants more.
    credit: Annotated[int, msgspec.Meta(ge=0, le=limits.CREDIT_MAX)] = 0


class TaskResponse(Message, frozen=True):
    """From a worker the outcome is OK or ERROR, unless the task was cancelled; towards a client any of the four."""

    message_id: _MessageId = ""
    service: str = ""
    outcome: Literal["OK", "ERROR", "REJECTED", "UNKNOWN"] = "OK"
    reason: str = ""
    #: Of a stream: how many there were.
    parts: Annotated[int, msgspec.Meta(ge=0)] = 0


class ConfigResponse(Message, frozen=True):
    identity: str
    heartbeat_ms: _Heartbeat
    version: int = 0
    digest: str = ""
    current: bool = False


class CheckConfigRequest(Message, frozen=True):
    identity: _Name
    services: _Services
    heartbeat_ms: _Heartbeat | None = None
    version: int | None = None
    digest: str = ""
    #: SHA-256 of the body of the CONFIG that it has, in hex.
    body_digest: str = ""


class ConnectRequest(CheckConfigRequest, frozen=True):
    """The same from a worker that is not known yet, with what it offers."""

    slots: _Slots = 1
    #: Random, and the same for as long as the worker lives, so that it is recognised over another connection.
    worker_token: _Token = ""


class PingRequest(Message, frozen=True):
    pass


class PongResponse(Message, frozen=True):
    version: int = 0
    digest: str = ""


class CancelRequest(Message, frozen=True):
    """Its body is the envelope of the task; from a broker to a worker, the ticket."""


class PartResponse(Message, frozen=True):
    """A part of a stream, or how far a task has got: see `wire.stream`."""


class CreditRequest(Message, frozen=True):
    """How many parts its client wants by now: see `wire.stream`."""


class NeedBrokerRequest(Message, frozen=True):
    services: list[_Name]
    identity: str = ""
    role: Literal["worker", "client"] = "client"


class NeedBrokerResponse(Message, frozen=True):
    pass


class DisconnectRequest(Message, frozen=True):
    pass


class DisconnectResponse(Message, frozen=True):
    pass


class ManageRequest(Message, frozen=True):
    """What an admin wants; the arguments, with the password, are in the body."""

    username: _Name
    command: _Name


class ManageResponse(Message, frozen=True):
    outcome: Literal["OK", "REJECTED"] = "OK"
    reason: str = ""


class ErrorResponse(Message, frozen=True):
    reason: str


MESSAGES: dict[tuple[str, str], type[Message]] = {
    ("TASK", "REQUEST"): TaskRequest,
    ("TASK", "RESPONSE"): TaskResponse,
    ("CONNECT", "REQUEST"): ConnectRequest,
    ("CONFIG", "RESPONSE"): ConfigResponse,
    ("CHECKCONFIG", "REQUEST"): CheckConfigRequest,
    ("PING", "REQUEST"): PingRequest,
    ("PONG", "RESPONSE"): PongResponse,
    ("CANCEL", "REQUEST"): CancelRequest,
    ("PART", "RESPONSE"): PartResponse,
    ("CREDIT", "REQUEST"): CreditRequest,
    ("NEEDBROKER", "REQUEST"): NeedBrokerRequest,
    ("NEEDBROKER", "RESPONSE"): NeedBrokerResponse,
    ("DISCONNECT", "REQUEST"): DisconnectRequest,
    ("DISCONNECT", "RESPONSE"): DisconnectResponse,
    ("MANAGE", "REQUEST"): ManageRequest,
    ("MANAGE", "RESPONSE"): ManageResponse,
    ("ERROR", "RESPONSE"): ErrorResponse,
}
# msgspec prepares a struct when it is first used, and may crash if two threads do that at once, as a worker's would.
for _kind in MESSAGES.values():
    msgspec.json.Decoder(_kind)

#: Each value comes after a comma, or is the first one after one of these brackets.
_BEFORE_VALUES = b",[{"

_read_any = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode


def read_fields(header: bytes) -> Fields:
    """The fields of a header, or a ProtocolError."""
    if len(header) > limits.HEADER_BYTES_MAX:
        raise ProtocolError(reasons.TOO_LARGE, f"a header has at most {limits.HEADER_BYTES_MAX} bytes")
    # A shorter header cannot have that many, and most are shorter.
    if len(header) > limits.VALUES_MAX and _has_too_many_values(header):
        raise _bad_header(f"more than {limits.VALUES_MAX} values")
    try:
        fields = _read_any(header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise _bad_header(f"not a JSON object ({error})") from None
    if type(fields) is not dict:
        raise _bad_header("not a JSON object")
    # Without escapes there are two quotes per key and per text: any others belong to a key given twice.
    quotes = 2 * len(fields)
    for value in fields.values():
        kind = type(value)
        if kind is str:
            quotes += 2
        elif kind is int:
            if not -limits.INTEGER_MAX <= value <= limits.INTEGER_MAX:
                raise _bad_header("an integer is too large")
        elif kind is list or kind is dict:
            quotes += _quotes_inside(value, 2)
    if header.count(b'"') != quotes:
        _check_duplicates(header)
    return fields


def read_valid(header: bytes) -> Fields:
    """The fields of a header that has been read before, or one that says the same but for a plain message_id."""
    fields: Fields = _read_any(header)
    return fields


def read_message(fields: Fields) -> Message:
    """The typed message that these fields stand for, or a ProtocolError."""
    version = fields.get("protocol", limits.PROTOCOL_VERSION)
    if version != limits.PROTOCOL_VERSION or type(version) is not int:
        raise _bad_header(f"this broker speaks protocol {limits.PROTOCOL_VERSION} only")
    try:
        kind = MESSAGES.get((fields["request"], fields["type"]))
    except KeyError as error:
        raise _bad_header(f"the field {error} is missing") from None
    except TypeError:
        raise _bad_header("request and type are texts") from None
    if kind is None:
        raise ProtocolError(reasons.UNKNOWN_REQUEST, f"no {fields['request']!r} {fields['type']!r} here"[:200])
    try:
        return msgspec.convert(fields, kind)
    except msgspec.ValidationError as error:
        raise _bad_header(str(error)) from None


def read(header: bytes) -> Message:
    return read_message(read_fields(header))


class _TaskRequest(TaskRequest, frozen=True, kw_only=True):
    request: Literal["TASK"]
    type: Literal["REQUEST"]


class _TaskResponse(TaskResponse, frozen=True, kw_only=True):
    request: Literal["TASK"]
    type: Literal["RESPONSE"]


_decode_task_request = msgspec.json.Decoder(_TaskRequest).decode
_decode_task_response = msgspec.json.Decoder(_TaskResponse).decode


def read_task_request(header: bytes) -> TaskRequest | None:
    """A broker's task for its worker; None if it is anything else. Typed, but not strict: a broker wrote it."""
    try:
        return _decode_task_request(header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


def read_task_response(header: bytes) -> TaskResponse | None:
    """A broker's answer to its client; None if it is anything else. Typed, but not strict: a broker wrote it."""
    try:
        return _decode_task_response(header)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        return None


#: The header of a worker's plain OK, which a broker recognises by its bytes: this, the message_id, and `answer_tail`.
ANSWER_HEAD = b'{"request":"TASK","type":"RESPONSE","message_id":'


def answer_tail(service: str) -> bytes:
    return b',"service":%b}' % _encode(service)


def write_task_response(message_id: str, service: str, outcome: str, reason: str, parts: int | None = None) -> bytes:
    """A worker's answer. Put together by hand, since every task pays for it. `parts`: of a stream, also if it is 0."""
    if outcome == "OK" and parts is None:
        return b'%b%b,"service":%b}' % (ANSWER_HEAD, _encode(message_id), _encode(service))
    return write(
        "TASK",
        "RESPONSE",
        message_id=message_id,
        service=service,
        outcome=outcome,
        reason=reason or None,
        parts=parts,
    )


def write(request: str, kind: str, /, **fields: Any) -> bytes:
    """A header in bytes; fields that are None are left out."""
    full: Fields = {"request": request, "type": kind}
    full.update((name, value) for name, value in fields.items() if value is not None)
    return _encode(full)


#: The last word of a broker that stops to its clients.
LEAVING: Final = write("DISCONNECT", "REQUEST")
#: What a client says to cancel a task, and a broker to its worker. A broker recognises it by its bytes.
CANCEL: Final = write("CANCEL", "REQUEST")
#: A part of a stream, from a worker to its broker and on to the client; and the credit for more, the other way.
PART: Final = write("PART", "RESPONSE")
CREDIT: Final = write("CREDIT", "REQUEST")

#: What a client adds to the header of a task that may run twice.
IDEMPOTENT: Final = b',"idempotent":true'
#: The envelope of a second attempt is that of the first, and this.
HEDGE_ENDING: Final = b"h"

#: All fields of a header; and one JSON string, for headers that are put together from parts.
write_fields: Final[Callable[[Fields], bytes]] = _encode
write_text: Final[Callable[[str], bytes]] = _encode


@lru_cache(64)
def _write_content_type(content_type: str) -> bytes:
    return b',"content_type":%b' % _encode(content_type) if content_type else b""


def write_more(content_type: str = "", own: Mapping[str, str] | None = None, key: str = "") -> bytes:
    """Further fields of a task, to be put into its header. `own`: headers of the client's own."""
    more = _write_content_type(content_type)
    if own:
        more += b',"headers":%b' % _encode(dict(own))
    return more + b',"key":%b' % _encode(key) if key else more


def write_delay(delay_ms: int) -> bytes:
    """Likewise, for a task that has to wait for its time."""
    return b',"delay_ms":%d' % delay_ms


def write_error(code: str, sentence: str) -> bytes:
    return write("ERROR", "RESPONSE", reason=reasons.reason(code, sentence)[: limits.REASON_CHARS_MAX])


def _bad_header(sentence: str) -> ProtocolError:
    return ProtocolError(reasons.BAD_HEADER, sentence[: limits.REASON_CHARS_MAX])


def _has_too_many_values(header: bytes) -> bool:
    """Counts what comes before values, without reading these; never fewer than there are."""
    if _count_before_values(header) <= limits.VALUES_MAX:
        return False
    # What is inside texts does not count. A value has two texts at most, its key and itself: no more are looked at.
    parts = header.replace(rb"\\", b"").replace(rb"\"", b"").split(b'"', 4 * limits.VALUES_MAX)
    return _count_before_values(b"".join(parts[::2])) > limits.VALUES_MAX


def _count_before_values(part: bytes) -> int:
    return len(part) - len(part.translate(None, _BEFORE_VALUES))


def _quotes_inside(value: list[object] | dict[str, object], depth: int) -> int:
    """Checks a list or an object, and counts the quotes that its keys and texts would have without escapes."""
    if depth > limits.NESTING_MAX:
        raise _bad_header(f"nested more than {limits.NESTING_MAX} deep")
    quotes = 0
    values: Iterable[object] = value
    if isinstance(value, dict):
        quotes = 2 * len(value)
        values = value.values()
    for inner in values:
        if isinstance(inner, str):
            quotes += 2
        elif isinstance(inner, int):
            if not -limits.INTEGER_MAX <= inner <= limits.INTEGER_MAX:
                raise _bad_header("an integer is too large")
        elif isinstance(inner, dict | list):
            quotes += _quotes_inside(inner, depth + 1)
    return quotes


def _check_duplicates(header: bytes) -> None:
    """The slow but certain check, for headers with escapes in them."""

    def once(pairs: list[tuple[str, object]]) -> None:
        if len(dict(pairs)) != len(pairs):
            raise _bad_header("a key is there twice")

    try:
        json.loads(header, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise _bad_header(f"not a JSON object ({error})") from None
