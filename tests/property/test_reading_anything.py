"""Whatever comes over the wire: a message or a typed error, never anything else, and never silence for a client."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.longer import examples

from famulus.core.dispatch.bounds import Bounds
from famulus.core.dispatch.dispatcher import Dispatcher
from famulus.core.routing.book import Book, BrokerAddress
from famulus.core.routing.router import Router
from famulus.errors import ProtocolError
from famulus.wire import headers, inner, limits, reasons, stream

CODES = {value for name, value in vars(reasons).items() if name.isupper()}
ORIGINS = [inner.FROM_CLIENT, inner.FROM_WORKER, inner.FROM_WORKER_ANSWER, inner.FROM_STRANGER]

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)
scalar = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | text
json_value = st.recursive(
    scalar, lambda inside: st.lists(inside, max_size=3) | st.dictionaries(text, inside, max_size=3), max_leaves=8
)
known_names = sorted({name for kind in headers.MESSAGES.values() for name in kind.__struct_fields__} | {"protocol"})
fields = st.fixed_dictionaries(
    {
        "request": st.sampled_from([request for request, _ in headers.MESSAGES]) | text,
        "type": st.sampled_from(["REQUEST", "RESPONSE"]) | text,
    },
    optional=dict.fromkeys(known_names, json_value),
)
#: Right often enough that what lies behind the first check is reached as well.
plausible: dict[str, st.SearchStrategy[Any]] = {
    "identity": st.sampled_from(["w1", "w2"]),
    "services": st.lists(st.sampled_from(["echo", "again"]), min_size=1, max_size=2),
    "slots": st.integers(1, 3),
    "service": st.sampled_from(["echo", "again", "nobody"]),
    "message_id": st.sampled_from(["", "m"]),
    "timeout_ms": st.integers(1, 5000),
    "priority": st.integers(0, 9),
    "outcome": st.sampled_from(["OK", "ERROR"]),
}
#: Made once: whatever is made anew for each draw is checked anew, too.
valid = {
    kind: st.fixed_dictionaries({"request": st.just(kind[0]), "type": st.just(kind[1]), **plausible})
    for kind in sorted(headers.MESSAGES)
}
valid_fields = st.sampled_from(list(valid)).flatmap(valid.__getitem__)
#: json.dumps also writes NaN and Infinity, which is as wrong as we want it.
near_json = (fields | valid_fields).map(lambda whole: json.dumps(whole).encode())


hits = st.integers(0, 4)
ways = st.sampled_from(["cut", "double", "hit", "insert"])
octets = st.integers(0, 255)
insertions = st.sampled_from([b'"', b"\\", b"{", b"[" * 50, b",", b"\\ud800", b"NaN", b"9" * 40])


@st.composite
def mutated(draw: st.DrawFn) -> bytes:
    """A header that was fine, or nearly, until somebody cut it, doubled a part of it or hit a few bytes."""
    header = bytearray(draw(near_json))
    for _ in range(draw(hits)):
        at = draw(st.integers(0, len(header)))
        end = draw(st.integers(at, min(len(header), at + 30)))
        how = draw(ways)
        if how == "cut":
            del header[at:end]
        elif how == "double":
            header[at:at] = header[at:end]
        elif how == "hit" and at < len(header):
            header[at] = draw(octets)
        else:
            header[at:at] = draw(insertions)
    return bytes(header)


any_header = st.binary(max_size=200) | near_json | mutated()


def assert_strict(header: bytes) -> None:
    """What was accepted would be accepted by the strictest reader that Python has, with the same result."""

    def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
        assert len(dict(pairs)) == len(pairs)
        return dict(pairs)

    def refuse(constant: str) -> None:
        raise AssertionError(constant)

    told = json.loads(header.decode(), object_pairs_hook=once, parse_constant=refuse)
    assert told == headers.read_fields(header)
    json.dumps(told).encode()
    assert headers.read_fields(headers.write_fields(told)) == told


def read(header: bytes) -> headers.Message | ProtocolError:
    try:
        return headers.read(header)
    except ProtocolError as error:
        return error


@settings(max_examples=examples(150), deadline=None)
@given(any_header)
@example(b'{"request":"PING","type":"REQUEST","a":"\\ud800"}')
@example(b'{"request":"PING","type":"REQUEST","a":1,"\\u0061":2}')
@example(b"[" * limits.HEADER_BYTES_MAX)
@example(b'{"a":' * 3000)
def test_any_header_is_a_message_or_a_protocol_error(header: bytes) -> None:
    result = read(header)
    if isinstance(result, ProtocolError):
        assert result.code in CODES
        assert str(result).startswith(f"{result.code}: ")
    else:
        assert isinstance(result, headers.Message)
        assert_strict(header)


BOOK = Book(BrokerAddress("b1", "family", "tcp://here:7100", "tcp://here:7101"), heartbeat_ms=1000)


@settings(max_examples=examples(100), deadline=None)
@given(st.binary(min_size=8, max_size=8), st.sampled_from([*ORIGINS, b"?", b""]), any_header)
@example(b"numbered", inner.FROM_CLIENT, b'{"request":"TASK","type":"REQUEST","service":"s","x":[1],"timeout_ms":5}')
@example(b"numbered", inner.FROM_CLIENT, b'{"request":"TASK","type":"REQUEST","service":"s","message_id":"m"}')
def test_any_question_gets_a_decision_of_the_right_shape(number: bytes, origin: bytes, header: bytes) -> None:
    (decision,) = Router(BOOK, lambda: "made").decide([[number, origin, b"", header]])
    assert decision[0] == number
    assert len(decision) == inner.DECISION_PARTS[decision[1]]
    assert all(type(part) is bytes for part in decision)
    if decision[1] == inner.FAULT:
        error = headers.read(decision[2])
        assert isinstance(error, headers.ErrorResponse)
        assert reasons.code_of(error.reason) in CODES
    elif decision[1] == inner.ACCEPT:
        inner.read_terms(decision[3])
        message_id = decision[6] or b'"made by the dispatcher"'
        assert_strict(decision[4] + message_id + b',"attempt":1,"timeout_ms":1}')
        assert_strict(decision[5] + message_id + inner.REJECTED_OVERLOAD)
    elif decision[1] == inner.ANSWER:
        assert_strict(b'{"request":"TASK","type":"RESPONSE","service":"s","message_id":"m"' + decision[3])
    elif decision[1] == inner.CONNECT:
        assert inner.read_names(decision[4])


peers = st.sampled_from([b"peer-1", b"peer-2", b"peer-3"])
frame = st.binary(max_size=20) | any_header | st.just(b"x" * 300)
any_message = st.tuples(peers, st.lists(frame, max_size=5)).map(lambda parts: [parts[0], *parts[1]])
good_message = st.tuples(peers, st.binary(max_size=8), any_header, st.binary(max_size=50)).map(list)
batches = st.lists(
    st.tuples(st.sampled_from(["clients", "workers", "tick"]), st.lists(any_message | good_message, max_size=5)),
    max_size=12,
)


@settings(max_examples=examples(40), deadline=None)
@given(batches, st.integers(0, 2))
def test_a_dispatcher_takes_anything_and_owes_no_client_an_answer(
    said: list[tuple[str, list[list[bytes]]]], routers: int
) -> None:
    core = Dispatcher(Bounds(body_bytes_max=1024), first_number=0, declared=[b"echo"])
    router = Router(BOOK, lambda: "made")
    for number in range(routers):
        core.on_router(b"router-%d" % number, [[inner.NO_NUMBER, inner.HELLO]])
    now_ns = 0
    asked = silent = answered = 0
    for door, batch in said:
        now_ns += 300_000_000
        core.at(now_ns)
        if door == "clients":
            core.on_clients(batch)
            silent += (without := sum(map(has_no_answer, batch)))
            asked += len(batch) - without
        elif door == "workers":
            core.on_workers(batch)
        else:
            core.on_tick()
        for _ in range(3):
            for name, questions in core.questions.take_batches():
                core.on_router(name, router.decide(questions))
        answered += take_answers(core)
        waiting = sum(1 for question in core.questions._open.values() if question.origin == inner.FROM_CLIENT)
        # What has no answer may wait for a router, too, and is answered if none can read it.
        assert asked <= answered + waiting + core.outcomes.open_tasks <= asked + silent
    core.on_router(b"last", [[inner.NO_NUMBER, inner.HELLO]])
    for name, questions in core.questions.take_batches():
        core.on_router(name, router.decide(questions))
    core.at(now_ns + 10**12)
    core.on_tick()
    assert asked <= answered + take_answers(core) <= asked + silent
    assert core.outcomes.open_bytes == core.questions.held_bytes == 0


def has_no_answer(message: list[bytes]) -> bool:
    """What is about a task that was sent before: that has an answer of its own."""
    if len(message) != 4 or len(message[3]) > 1024:
        return False
    if message[2] == headers.CREDIT:
        return len(message[3]) >= stream.NUMBER_BYTES
    try:
        return isinstance(headers.read(message[2]), headers.CancelRequest)
    except ProtocolError:
        return False


def take_answers(core: Dispatcher) -> int:
    answers = len(core.out.clients)
    for message in [*core.out.clients, *core.out.workers]:
        _, envelope, header, _ = message
        assert len(envelope) <= limits.ENVELOPE_BYTES_MAX
        assert json.loads(header)["request"]
    core.out.clients.clear()
    core.out.workers.clear()
    return answers
