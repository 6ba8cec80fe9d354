"""The inner protocol: what a dispatcher asks its routers, and what they decide.

    question      dispatcher -> router    number, origin, principal, header
    decision      router -> dispatcher    number, verb, what the verb adds ...
    announcement  anyone -> dispatcher    [kind][epoch][subject]         (on PUB/SUB; may be lost, so it is repeated)

Questions and decisions travel in batches: one message of one frame, which is a MessagePack array of them, each an
array of binaries. A frame costs both sides about a microsecond, and a task has some twenty of these parts.

A number is eight bytes that the router returns untouched. A question is answered by one decision. Any router may
answer any question, and deciding twice does no harm: the dispatcher takes the first decision and drops the rest.
Headers are opaque to the dispatcher, so what it must understand comes in fixed binary layouts (network order), and
headers that it may have to finish by itself come as prefixes, to which it adds one of the tails below.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from famulus.errors import ProtocolError
from famulus.wire import reasons
from famulus.wire.headers import write_text

# Where a message came from: all that a router is told besides the header, and the principal behind the connection.
FROM_CLIENT: Final = b"C"
#: A worker's message that brought back the ticket of a task it holds.
FROM_WORKER_ANSWER: Final = b"A"
FROM_WORKER: Final = b"W"
#: Somebody at the backend who has no session here.
FROM_STRANGER: Final = b"S"
#: Another broker's answer to a task that was handed over to it.
FROM_DELEGATE: Final = b"D"

#: How the names of brokers begin, as principals; no other principal has a slash in its name.
BROKER: Final = "broker/"

# Verbs of decisions.
HELLO: Final = b"H"  # [number: zeros]                                    a router is there
# [service][terms][worker head][client head][message_id if the client gave one, or empty][epoch, or empty][visited]
# [client's token, or empty]
# [the principal for whom another broker passes it on, or empty][mark of its key, or empty]      a task
ACCEPT: Final = b"T"
ANSWER: Final = b"A"  # [outcome: O, E; of a delegate, or if it was cancelled, also R or U][tail]  the answer to a task
REPLY: Final = b"R"  # [header][body]                                     to whoever asked; changes nothing
REFUSE: Final = b"N"  # [header][what was wanted][by which principal][of which services]    it has no right to do that
CONNECT: Final = b"C"  # [identity][session terms][services][header][body][token, or empty]
PONG: Final = b"P"  # [header][epoch, or empty]                          the worker may get tasks now
DISCONNECT: Final = b"D"  # [header]                                      the farewell, for when its last task is done
LATE: Final = b"L"  # [header, or empty for silence]              a worker's answer to nothing that is open
CANCEL: Final = b"X"  # of the task whose envelope is the body
MANAGE: Final = b"M"  # for the steward, who is given the header and the body
FAULT: Final = b"F"  # [header]                                           the sender broke the protocol

#: How many parts each decision has, the number and the verb included.
DECISION_PARTS: Final = {
    HELLO: 2,
    ACCEPT: 12,
    ANSWER: 4,
    REPLY: 4,
    REFUSE: 6,
    CONNECT: 8,
    PONG: 4,
    DISCONNECT: 3,
    LATE: 3,
    CANCEL: 2,
    MANAGE: 2,
    FAULT: 3,
}

OUTCOME_OK: Final = b"O"
OUTCOME_ERROR: Final = b"E"
OUTCOME_REJECTED: Final = b"R"
OUTCOME_UNKNOWN: Final = b"U"

#: The header of what the dispatcher tells its steward about its work.
WORK: Final = b"work"
#: The header of what the steward tells the dispatcher about its peers.
PEERS: Final = b"peers"
#: The header of what the steward tells the dispatcher about those who may connect.
PRINCIPALS: Final = b"principals"
#: The header of what the steward tells the dispatcher: the name of a worker to stop ignoring, or nothing for all.
FORGIVE: Final = b"forgive"
#: The header of what the steward tells the dispatcher: the names of all workers that the config wants ignored.
IGNORE: Final = b"ignore"
#: The header of what the steward tells the dispatcher: the names of all workers that the config wants drained.
DRAIN: Final = b"drain"

# Kinds of announcements.
ROUTER_ALIVE: Final = b"alive"
ROUTER_GONE: Final = b"gone"
CONFIG: Final = b"config"

#: How the workers of a service are chosen.
POLICIES: Final = ("lru", "least_busy", "ewma", "key")

NO_NUMBER: Final = bytes(8)
EPOCH_BYTES: Final = 8
MARK_BYTES: Final = 4

_TERMS: Final = struct.Struct("!IBBHIQIBIQIII")
#: Where the delay is in them.
_DELAY_AT: Final = 45
# Of the byte that says how a task is delivered.
_AT_LEAST_ONCE: Final = 1
_ABANDONED_IS_CANCELLED: Final = 2
_HEDGE: Final = 4
_SESSION_TERMS: Final = struct.Struct("!II")
_encode = msgspec.msgpack.Encoder().encode
_decode_batch = msgspec.msgpack.Decoder(list[list[bytes]]).decode
#: By service: free slots, busy slots, waiting tasks.
Work = dict[str, tuple[int, int, int]]
#: A worker's name, its faults, and for how many more seconds it is ignored.
Errors = tuple[str, int, int]
#: A peer's identity, its frontend, how near its family is, and its free slots by service.
PeerOffer = tuple[str, str, int, dict[str, int]]
_EPOCH: Final = struct.Struct("!Q")
_LOAD: Final = struct.Struct("!d")


class Terms(NamedTuple):
    """What a dispatcher must know about a task: everything that its service and its header determine."""

    timeout_ms: int
    priority: int
    at_least_once: bool
    attempts_max: int
    backlog_tasks_max: int
    backlog_bytes_max: int
    backlog_age_ms: int
    #: How its worker is chosen: a place in `POLICIES`.
    policy: int = 0
    #: How many outcomes are kept of tasks with an id of their client's own, how large, and for how long.
    results_max: int = 0
    results_bytes_max: int = 0
    results_age_ms: int = 0
    #: It is cancelled when the connection of its client is lost.
    abandoned_is_cancelled: bool = False
    #: A second attempt: at another worker than the first one, or not at all.
    is_hedge: bool = False
    #: How many parts of its answer its client reads before it says that it wants more; 0 if it wants no stream.
    credit: int = 0
    #: How long it waits before anybody may get it: its client's wish.
    delay_ms: int = 0


class SessionTerms(NamedTuple):
    slots: int
    heartbeat_ms: int


class PrincipalTerms(NamedTuple):
    """What a dispatcher must know about a principal; what it may call, only routers know."""

    #: Equal for those who may call the same services.
    rights: bytes
    #: Names of services, or how they begin, with a star.
    serve: tuple[str, ...]
    #: 0: no limit.
    open_tasks_max: int
    tasks_per_s: int


NO_TERMS: Final = PrincipalTerms(b"", (), 0, 0)


def write_terms(terms: Terms) -> bytes:
    timeout, priority, at_least_once, *rest, abandoned_is_cancelled, is_hedge, credit, delay = terms
    delivery = at_least_once * _AT_LEAST_ONCE + abandoned_is_cancelled * _ABANDONED_IS_CANCELLED + is_hedge * _HEDGE
    return _TERMS.pack(timeout, priority, delivery, *rest, credit, delay)


def read_terms(frame: bytes) -> Terms:
    timeout, priority, delivery, attempts, tasks, size, age, policy, *results, credit, delay = _unpack(_TERMS, frame)
    if policy >= len(POLICIES):
        raise ProtocolError(reasons.BAD_FRAMES, f"there is no policy {policy}")
    at_least_once, cancelled = bool(delivery & _AT_LEAST_ONCE), bool(delivery & _ABANDONED_IS_CANCELLED)
    hedge = bool(delivery & _HEDGE)
    first = timeout, priority, at_least_once, attempts, tasks, size, age, policy
    return Terms._make((*first, *results, cancelled, hedge, credit, delay))


def with_delay(terms: bytes, delay_ms: int) -> bytes:
    """The same terms for a task that waits for its time. Delays are many, and terms without one are few."""
    return terms[:_DELAY_AT] + delay_ms.to_bytes(4, "big")


def write_mark(key: str) -> bytes:
    """What stands for the key of a task: all that a dispatcher is told about it."""
    return blake2b(key.encode(), digest_size=MARK_BYTES).digest()


def read_mark(frame: bytes) -> int:
    """Never 0, unless the frame is empty."""
    return int.from_bytes(frame, "big") + 1 if frame else 0


def write_session_terms(terms: SessionTerms) -> bytes:
    return _SESSION_TERMS.pack(*terms)


def read_session_terms(frame: bytes) -> SessionTerms:
    return SessionTerms(*_unpack(_SESSION_TERMS, frame))


def _unpack(layout: struct.Struct, frame: bytes) -> tuple[int, ...]:
    try:
        return layout.unpack(frame)
    except struct.error as error:
        raise ProtocolError(reasons.BAD_FRAMES, str(error)) from None


def write_names(names: list[str]) -> bytes:
    """Names in one frame, each after its length in two bytes."""
    encoded = [name.encode() for name in names]
    return b"".join(len(name).to_bytes(2, "big") + name for name in encoded)


def read_names(frame: bytes) -> list[bytes]:
    names, at = [], 0
    while at < len(frame):
        end = at + 2 + int.from_bytes(frame[at : at + 2], "big")
        names.append(frame[at + 2 : end])
        at = end
    return names


write_epoch: Final[Callable[[int], bytes]] = _EPOCH.pack


def read_epoch(frame: bytes) -> int:
    return _unpack(_EPOCH, frame)[0]


def write_announcement(kind: bytes, epoch: int, subject: bytes) -> list[bytes]:
    return [kind, _EPOCH.pack(epoch), subject]


#: Questions or decisions, in one frame.
write_batch: Final[Callable[[list[list[bytes]]], bytes]] = _encode


def read_batch(frame: bytes) -> list[list[bytes]]:
    """What `write_batch` wrote; a ProtocolError if it is anything else."""
    try:
        return _decode_batch(frame)
    except msgspec.DecodeError as error:
        raise ProtocolError(reasons.BAD_FRAMES, f"not a batch ({error})") from None


def write_work(work: Work, slots: tuple[int, int], errors: list[Errors]) -> bytes:
    """What the dispatcher tells the steward once a second. `slots` are the free and the busy ones, counted once."""
    return _encode((work, slots, errors))


read_work: Final = msgspec.msgpack.Decoder(tuple[Work, tuple[int, int], list[Errors]]).decode


def write_load(load: float) -> list[bytes]:
    """What the dispatcher tells its routers once a second, for whoever asks them for a broker."""
    return [_LOAD.pack(load)]


def read_load(frames: list[bytes]) -> float:
    """0 if the frames are not a load."""
    return _LOAD.unpack(frames[0])[0] if len(frames) == 1 and len(frames[0]) == _LOAD.size else 0.0


def write_peers(identity: str, offers: list[PeerOffer]) -> bytes:
    """What the steward tells the dispatcher: its own identity, and what its peers offer."""
    return _encode((identity, offers))


read_peers: Final = msgspec.msgpack.Decoder(tuple[str, list[PeerOffer]]).decode


class Principals(NamedTuple):
    """Who may connect."""

    #: Names, by public keys.
    keys: dict[bytes, str]
    terms: dict[str, PrincipalTerms]
    #: Whether one without a key may connect as well, and do anything.
    plain: bool
    #: The public keys of brokers that want some themselves, by their names.
    brokers: dict[str, bytes]
    #: Of the config that says so.
    epoch: int = 0


write_principals: Final[Callable[[Principals], bytes]] = _encode
_decode_principals = msgspec.msgpack.Decoder(
    tuple[dict[bytes, str], dict[str, tuple[bytes, tuple[str, ...], int, int]], bool, dict[str, bytes], int]
).decode


def read_principals(data: bytes) -> Principals:
    keys, terms, plain, brokers, epoch = _decode_principals(data)
    return Principals(keys, {name: PrincipalTerms(*each) for name, each in terms.items()}, plain, brokers, epoch)


def tail(outcome: str, reason: str) -> bytes:
    """The end of a client's header, after the prefix that an ACCEPT brought."""
    return b',"outcome":' + write_text(outcome) + b',"reason":' + write_text(reason) + b"}"


TAIL_OK: Final = b',"outcome":"OK"}'
#: How every tail that says UNKNOWN begins.
TAIL_UNKNOWN: Final = b',"outcome":"UNKNOWN",'


# The outcomes that a dispatcher gives by itself.
def _rejected(code: str, sentence: str) -> bytes:
    return tail("REJECTED", reasons.reason(code, sentence))


def _unknown(code: str, sentence: str) -> bytes:
    return tail("UNKNOWN", reasons.reason(code, sentence))


REJECTED_NO_SERVICE: Final = _rejected(reasons.NO_SERVICE, "nobody offers this service")
REJECTED_NO_WORKER: Final = _rejected(reasons.NO_WORKER, "no worker of this service came in time")
REJECTED_OVERLOAD: Final = _rejected(reasons.OVERLOAD, "the backlog of this service is full")
REJECTED_TOO_MANY_DELAYED: Final = _rejected(
    reasons.OVERLOAD, "as many tasks of this service wait for their time here as may"
)
REJECTED_LONG_WAIT: Final = _rejected(reasons.OVERLOAD, "the wait for a slot would be longer than its time-out allows")
REJECTED_BROKER_FULL: Final = _rejected(reasons.OVERLOAD, "this broker holds all it can")
REJECTED_TOO_MANY_OPEN: Final = _rejected(reasons.OVERLOAD, "you have as many tasks open here as you may")
REJECTED_TOO_FAST: Final = _rejected(reasons.OVERLOAD, "you send more tasks in a second than you may")
REJECTED_NO_OTHER: Final = _rejected(reasons.OVERLOAD, "no other worker had a slot free for a second attempt")
#: To another broker that hands over to us a task that we have handed over ourselves.
REJECTED_HANDED_OVER: Final = _rejected(reasons.OVERLOAD, "no slot was free here for it either")
REJECTED_TOO_LONG: Final = _rejected(reasons.OVERLOAD, "no slot was free in time")
REJECTED_EXPIRED: Final = _rejected(reasons.EXPIRED, "the time-out passed before it could start")
#: It could have started, but would hardly have finished in time.
REJECTED_TOO_LATE: Final = _rejected(reasons.EXPIRED, "less time was left than this service takes for a task")
REJECTED_VOID: Final = _rejected(reasons.NOT_ALLOWED, "your key is not valid here any more")
#: To one that waited for its time: the client sends it again, and a router looks whether it may run.
REJECTED_RIGHTS_CHANGED: Final = _rejected(reasons.DISABLED, "what you may call has changed since it came; ask again")
REJECTED_CANCELLED: Final = _rejected(reasons.CANCELLED, "it was cancelled before it began")
REJECTED_DRAINING: Final = _rejected(reasons.DISABLED, "this broker is shutting down")
UNKNOWN_EXPIRED: Final = _unknown(reasons.EXPIRED, "no answer within the time-out")
UNKNOWN_CANCELLED: Final = _unknown(reasons.CANCELLED, "it was cancelled, and may have begun")
#: To one of several who asked for the same task by its id.
UNKNOWN_LEFT_TO_OTHERS: Final = _unknown(reasons.CANCELLED, "others asked for this task, too: it goes on for them")
UNKNOWN_WORKER_LOST: Final = _unknown(reasons.WORKER_LOST, "its worker was lost in the middle")
UNKNOWN_BAD_ANSWER: Final = _unknown(reasons.BAD_HEADER, "the worker's answer could not be read")
UNKNOWN_BAD_PART: Final = _unknown(
    reasons.BAD_HEADER, "a part of its stream was not the next one, not wanted yet, or too large"
)
#: To one of several who asked for the same task by its id.
UNKNOWN_STREAMED: Final = _unknown(reasons.CONFLICT, "another one asked for this stream, too, and gets its parts")
#: The task ran, and its client asks for the answer again.
UNKNOWN_FORGOTTEN: Final = _unknown(reasons.TOO_LARGE, "it ran; its answer was too large to be kept")
#: It is open, and so many wait for it already that no more may; that says nothing about whether it runs.
UNKNOWN_TOO_MANY_WAIT: Final = _unknown(reasons.OVERLOAD, "too many ask for this task at once; it may run")
UNKNOWN_BROKER_STOPPED: Final = _unknown(reasons.BROKER_LOST, "this broker stopped before the answer")
