"""Headers are read strictly: a message of the right type, or a ProtocolError that says what is wrong with it."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from contextlib import suppress
from typing import Any

import pytest

from famulus.errors import ProtocolError
from famulus.wire import headers, limits, reasons

#: One full example of every message, and the struct that it must become.
EXAMPLES: list[tuple[str, str, dict[str, Any], headers.Message]] = [
    (
        "TASK",
        "REQUEST",
        {"service": "echo", "message_id": "m-1", "timeout_ms": 250, "priority": 9, "attempt": 2},
        headers.TaskRequest("echo", "m-1", 250, 9, 2),
    ),
    ("TASK", "REQUEST", {"service": "echo"}, headers.TaskRequest("echo", "", None, limits.PRIORITY_DEFAULT, 1)),
    (
        "TASK",
        "RESPONSE",
        {"message_id": "m-1", "service": "echo", "outcome": "REJECTED", "reason": "overload: no"},
        headers.TaskResponse("m-1", "echo", "REJECTED", "overload: no"),
    ),
    ("TASK", "RESPONSE", {}, headers.TaskResponse(outcome="OK")),
    (
        "CONNECT",
        "REQUEST",
        {"identity": "w", "services": ["a", "b"], "slots": 4, "heartbeat_ms": 500, "version": 3, "digest": "d"},
        headers.ConnectRequest("w", ["a", "b"], 500, 3, "d", slots=4),
    ),
    ("CONNECT", "REQUEST", {"identity": "w", "services": ["a"]}, headers.ConnectRequest("w", ["a"])),
    ("MANAGE", "REQUEST", {"username": "ada", "command": "show"}, headers.ManageRequest("ada", "show")),
    (
        "MANAGE",
        "RESPONSE",
        {"outcome": "REJECTED", "reason": "not_allowed: no"},
        headers.ManageResponse("REJECTED", "not_allowed: no"),
    ),
    (
        "CONFIG",
        "RESPONSE",
        {"identity": "w", "heartbeat_ms": 1000, "version": 3, "digest": "d", "current": True},
        headers.ConfigResponse("w", 1000, 3, "d", True),
    ),
    (
        "CHECKCONFIG",
        "REQUEST",
        {"identity": "w", "services": ["a"], "heartbeat_ms": 500, "version": 3, "digest": "d"},
        headers.CheckConfigRequest("w", ["a"], 500, 3, "d"),
    ),
    ("PING", "REQUEST", {}, headers.PingRequest()),
    ("PONG", "RESPONSE", {"version": 3, "digest": "d"}, headers.PongResponse(3, "d")),
    (
        "NEEDBROKER",
        "REQUEST",
        {"services": ["a"], "identity": "w", "role": "worker"},
        headers.NeedBrokerRequest(["a"], "w", "worker"),
    ),
    ("NEEDBROKER", "RESPONSE", {}, headers.NeedBrokerResponse()),
    ("CANCEL", "REQUEST", {}, headers.CancelRequest()),
    ("PART", "RESPONSE", {}, headers.PartResponse()),
    ("CREDIT", "REQUEST", {}, headers.CreditRequest()),
    ("DISCONNECT", "REQUEST", {}, headers.DisconnectRequest()),
    ("DISCONNECT", "RESPONSE", {}, headers.DisconnectResponse()),
    (
        "ERROR",
        "RESPONSE",
        {"reason": "not_connected: connect again"},
        headers.ErrorResponse("not_connected: connect again"),
    ),
]


def task(**fields: Any) -> bytes:
    return json.dumps({"request": "TASK", "type": "REQUEST", "service": "echo"} | fields).encode()


def connect(**fields: Any) -> bytes:
    return json.dumps({"request": "CONNECT", "type": "REQUEST", "identity": "w", "services": ["a"]} | fields).encode()


def refusal(header: bytes) -> ProtocolError:
    with pytest.raises(ProtocolError) as caught:
        headers.read(header)
    return caught.value


def unreadable(header: bytes) -> ProtocolError:
    """Refused as JSON already, before anybody asks which message it is."""
    with pytest.raises(ProtocolError) as caught:
        headers.read_fields(header)
    return caught.value


# -- every kind of message ----------------------------------------------------------------------------------------


def test_every_kind_of_message_has_an_example() -> None:
    assert {(request, kind) for request, kind, _, _ in EXAMPLES} == set(headers.MESSAGES)


@pytest.mark.parametrize(("request_", "kind", "fields", "message"), EXAMPLES)
def test_what_is_written_is_read_again(
    request_: str, kind: str, fields: dict[str, Any], message: headers.Message
) -> None:
    header = headers.write(request_, kind, **fields)
    assert json.loads(header) == {"request": request_, "type": kind} | fields
    assert headers.read(header) == message
    assert type(headers.read(header)) is type(message)


def test_fields_may_stand_in_any_order_and_with_any_space_between() -> None:
    header = b' {"service" : "echo",\n"type":"REQUEST",\t"request":"TASK"} '
    assert headers.read(header) == headers.TaskRequest("echo")


def test_a_field_that_is_none_is_not_written() -> None:
    assert json.loads(headers.write("PING", "REQUEST", digest=None)) == {"request": "PING", "type": "REQUEST"}


def test_fields_that_nobody_knows_are_kept_and_do_no_harm() -> None:
    header = task(traceparent="00-ab-cd-01", tags=["x", {"y": [1.5, None, True]}])
    fields = headers.read_fields(header)
    assert fields["traceparent"] == "00-ab-cd-01"
    assert fields["tags"] == ["x", {"y": [1.5, None, True]}]
    assert headers.read_message(fields) == headers.TaskRequest("echo")
    assert json.loads(headers.write_fields(fields)) == json.loads(header)


def test_an_error_is_a_code_and_a_sentence_of_bounded_length() -> None:
    error = headers.read(headers.write_error(reasons.OVERLOAD, "x" * 5000))
    assert isinstance(error, headers.ErrorResponse)
    assert reasons.code_of(error.reason) == reasons.OVERLOAD
    assert len(error.reason) == limits.REASON_CHARS_MAX


@pytest.mark.parametrize("text", ["", "plain", 'quo"te', "back\\slash", "line\nbreak", "\x00", "äöü", "\U0001f600"])
def test_texts_survive_whatever_is_in_them(text: str) -> None:
    assert json.loads(headers.write_text(text)) == text
    assert headers.read_fields(b'{"note":' + headers.write_text(text) + b"}") == {"note": text}


# -- the short cuts of the two ends -------------------------------------------------------------------------------


def test_the_short_cuts_read_what_the_strict_reader_reads() -> None:
    for request, kind, fields, message in EXAMPLES:
        header = headers.write(request, kind, **fields, more={"a": [1]})
        for short_cut, struct in (
            (headers.read_task_request, headers.TaskRequest),
            (headers.read_task_response, headers.TaskResponse),
        ):
            told = short_cut(header)
            if isinstance(message, struct):
                assert told is not None
                assert {name: getattr(told, name) for name in struct.__struct_fields__} == {
                    name: getattr(message, name) for name in struct.__struct_fields__
                }
            else:
                assert told is None


@pytest.mark.parametrize("rubbish", [b"", b"[]", b"{", b"\xff", b"[" * 10_000, b'{"request":"TASK","type":"X"}'])
def test_the_short_cuts_say_none_to_rubbish(rubbish: bytes) -> None:
    assert headers.read_task_request(rubbish) is None
    assert headers.read_task_response(rubbish) is None


@pytest.mark.parametrize(("outcome", "reason"), [("OK", ""), ("ERROR", 'no: "never"')])
def test_a_workers_answer_by_hand_is_the_answer_by_the_book(outcome: str, reason: str) -> None:
    header = headers.write_task_response('m"1', "echo", outcome, reason)
    assert headers.read(header) == headers.TaskResponse('m"1', "echo", outcome, reason)  # type: ignore[arg-type]


# -- what is not JSON, or not the JSON we mean --------------------------------------------------------------------


@pytest.mark.parametrize(
    "header",
    [
        b"",
        b" ",
        b"{",
        b"{}}",
        b"[]",
        b"[1]",
        b"null",
        b"7",
        b'"TASK"',
        b"\xff\xfe{}",
        b"\xef\xbb\xbf{}",
        '{"a":1}'.encode("utf-16"),
        b"{'a':1}",
        b'{"a":1,}',
        b'{"a":01}',
        b'{"a":+1}',
        b'{"a":"\x01"}',
        b'{"a":"\xff"}',
        b'{"a":1} // why',
        b'{"a":1}{"b":2}',
        b"{1:2}",
    ],
)
def test_what_is_not_one_json_object_is_a_bad_header(header: bytes) -> None:
    assert unreadable(header).code == reasons.BAD_HEADER


@pytest.mark.parametrize(
    "pair",
    [
        b'"a":1,"a":1',
        b'"a":1,"a":2',
        b'"service":"other"',
        b'"serv\\u0069ce":"other"',
        b'"a":"x","a":["x"]',
        b'"a":[],"\\u0061":[]',
        b'"a":"\\"","a":"\\""',
        b'"a":{"b":1,"b":1}',
        b'"a":{"b":1,"\\u0062":2}',
        b'"a":[{"b":"\\\\","b":"\\\\"}]',
        b'"a":[[{"b":1,"b":2}]]',
        b'"":1,"":1',
    ],
)
def test_a_key_that_is_there_twice_is_a_bad_header_wherever_it_stands(pair: bytes) -> None:
    error = unreadable(b'{"request":"TASK","type":"REQUEST","service":"echo",' + pair + b"}")
    assert error.code == reasons.BAD_HEADER
    assert "twice" in str(error)


def test_equal_keys_in_different_objects_are_not_twice() -> None:
    header = b'{"a":{"b":1,"c":{"b":2}},"b":[{"b":1},{"b":2}],"\\u0063":"\\"a\\":"}'
    assert headers.read_fields(header)["c"] == '"a":'


@pytest.mark.parametrize("number", [b"NaN", b"Infinity", b"-Infinity", b"1e999", b"-1e400", b"nan", b"inf"])
@pytest.mark.parametrize("place", [b'{"a":%b}', b'{"a":[%b]}', b'{"a":{"b":%b}}'])
def test_numbers_that_are_none_are_bad_headers(number: bytes, place: bytes) -> None:
    assert unreadable(place % number).code == reasons.BAD_HEADER


@pytest.mark.parametrize(
    "number",
    [2**53, -(2**53), 2**63, 2**64, -(2**64), 10**100, 10**5000],
    ids=lambda n: f"{n:.1e}" if n < 10**300 else "huge",
)
@pytest.mark.parametrize("place", [b'{"a":%b}', b'{"a":[1,%b]}', b'{"a":{"b":{"c":%b}}}'])
def test_integers_that_not_every_reader_holds_are_bad_headers(number: int, place: bytes) -> None:
    sys_digits = b"1" + b"0" * 5000 if number == 10**5000 else b"%d" % number
    assert unreadable(place % sys_digits).code == reasons.BAD_HEADER


@pytest.mark.parametrize("number", [0, -0, limits.INTEGER_MAX, -limits.INTEGER_MAX])
def test_integers_that_every_reader_holds_are_fine(number: int) -> None:
    assert headers.read_fields(b'{"a":%d,"b":[%d]}' % (number, number)) == {"a": number, "b": [number]}


def test_nesting_ends_where_the_protocol_says() -> None:
    def nested(opening: str, closing: str, depth: int) -> bytes:
        return f'{{"a":{opening * (depth - 1)}1{closing * (depth - 1)}}}'.encode()

    for opening, closing in (("[", "]"), ('{"b":', "}")):
        assert headers.read_fields(nested(opening, closing, limits.NESTING_MAX))
        for depth in (limits.NESTING_MAX + 1, 100, 1500):
            assert unreadable(nested(opening, closing, depth)).code == reasons.BAD_HEADER
    assert unreadable(b'{"a":' + b"[" * 16_000).code == reasons.BAD_HEADER


@pytest.mark.parametrize("value", ["1", "[]", "{}", '"a,[{"', r'"a\",\\"', '{"a":1}', "[[2]]", "null", "1.5"])
def test_there_are_only_so_many_values_in_a_header(value: str) -> None:
    """Each bracket and comma outside of texts counts, so an empty list or object is counted twice."""

    def with_values(count: int) -> bytes:
        return b'{"x":[' + b",".join([value.encode()] * count) + b"]}"

    assert headers.read_fields(with_values(limits.VALUES_MAX // 4))
    for count in (limits.VALUES_MAX + 1, 16_000 // (len(value) + 1)):
        error = unreadable(with_values(max(count, limits.VALUES_MAX)))
        assert (error.code, "values" in str(error)) == (reasons.BAD_HEADER, True)


def test_a_worker_of_as_many_services_as_it_may_have_can_say_so() -> None:
    names = [f"s{number}" for number in range(limits.SERVICES_PER_WORKER_MAX)]
    told = {"slots": 1, "heartbeat_ms": 1000, "version": 1, "digest": "d", "protocol": 1}
    headers.read(headers.write("CONNECT", "REQUEST", identity="w", services=names, **told))


@pytest.mark.parametrize("text", ["," * 9000, "[{" * 4000, '",' * 3000, "\\," * 3000, '\\",[' * 2000])
def test_what_stands_in_a_text_is_no_value(text: str) -> None:
    assert headers.read_fields(headers.write("TASK", "REQUEST", note=text))["note"] == text


def test_a_header_of_nothing_but_lists_is_hardly_read() -> None:
    """Within its bytes it would be a thousand times as dear as a plain one; whoever sends it does not pay for that."""
    plain, costly = b'{"x":"' + b"y" * 15_600 + b'"}', b'{"x":[' + b",".join([b"[]"] * 5200) + b"]}"

    def read_in_s(header: bytes) -> float:
        took = []
        for _ in range(20):
            began = time.perf_counter()
            with suppress(ProtocolError):
                headers.read_fields(header)
            took.append(time.perf_counter() - began)
        return min(took)

    assert read_in_s(costly) < 20 * read_in_s(plain)


def test_a_header_is_too_large_from_one_byte_on() -> None:
    def padded(size: int) -> bytes:
        return task(pad="x" * (size - len(task(pad=""))))

    assert headers.read(padded(limits.HEADER_BYTES_MAX)) == headers.TaskRequest("echo")
    assert len(padded(limits.HEADER_BYTES_MAX + 1)) == limits.HEADER_BYTES_MAX + 1
    assert unreadable(padded(limits.HEADER_BYTES_MAX + 1)).code == reasons.TOO_LARGE


@pytest.mark.parametrize("text", [b"\\ud800", b"\\udc00", b"x\\udfffy", b"\\ud800\\ud800", b"\xed\xa0\x80"])
@pytest.mark.parametrize("place", [b'{"a":"%b"}', b'{"%b":1}', b'{"a":["%b"]}'])
def test_half_a_character_is_a_bad_header(text: bytes, place: bytes) -> None:
    """Python would hold it, but could not write it out again."""
    assert unreadable(place % text).code == reasons.BAD_HEADER


def test_a_whole_character_in_two_halves_is_fine() -> None:
    assert headers.read_fields(b'{"a":"\\ud83d\\ude00"}') == {"a": "\U0001f600"}


# -- which message it is ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["request", "type"])
def test_request_and_type_must_be_there(missing: str) -> None:
    fields = {"request": "TASK", "type": "REQUEST", "service": "echo"}
    del fields[missing]
    error = refusal(json.dumps(fields).encode())
    assert error.code == reasons.BAD_HEADER
    assert missing in str(error)


@pytest.mark.parametrize(
    ("request_", "kind"),
    [("TASKS", "REQUEST"), ("task", "REQUEST"), ("TASK", "ANSWER"), ("PING", "RESPONSE"), ("", ""), (None, 1)],
)
def test_a_request_that_nobody_knows_is_told_so(request_: object, kind: object) -> None:
    error = refusal(json.dumps({"request": request_, "type": kind}).encode())
    assert error.code == reasons.UNKNOWN_REQUEST


def test_a_long_request_does_not_make_a_long_answer() -> None:
    error = refusal(json.dumps({"request": "x" * 10_000, "type": "REQUEST"}).encode())
    assert error.code == reasons.UNKNOWN_REQUEST
    assert len(str(error)) < 300


@pytest.mark.parametrize(("request_", "kind"), [(["TASK"], "REQUEST"), ("TASK", {"a": 1}), ({}, [])])
def test_request_and_type_are_texts(request_: object, kind: object) -> None:
    assert refusal(json.dumps({"request": request_, "type": kind}).encode()).code == reasons.BAD_HEADER


def test_protocol_one_may_be_stated() -> None:
    assert headers.read(task(protocol=1)) == headers.TaskRequest("echo")


@pytest.mark.parametrize("version", [0, 2, -1, "1", 1.0, True, None, [1]])
def test_another_protocol_is_told_which_one_is_spoken(version: object) -> None:
    error = refusal(task(protocol=version))
    assert error.code == reasons.BAD_HEADER
    assert f"protocol {limits.PROTOCOL_VERSION}" in str(error)


# -- what each field may be ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("service", ""),
        ("service", 1),
        ("service", None),
        ("service", ["echo"]),
        ("service", "x" * (limits.NAME_CHARS_MAX + 1)),
        ("message_id", 1),
        ("message_id", None),
        ("message_id", "x" * (limits.MESSAGE_ID_CHARS_MAX + 1)),
        ("timeout_ms", 0),
        ("timeout_ms", -1),
        ("timeout_ms", 1.5),
        ("timeout_ms", 1.0),
        ("timeout_ms", "100"),
        ("timeout_ms", True),
        ("priority", -1),
        ("priority", limits.PRIORITY_MAX + 1),
        ("priority", "5"),
        ("priority", None),
        ("priority", False),
        ("attempt", "1"),
    ],
)
def test_a_task_with_a_wrong_field_is_told_which_one(field: str, wrong: object) -> None:
    error = refusal(task(**{field: wrong}))
    assert error.code == reasons.BAD_HEADER
    assert field in str(error)


@pytest.mark.parametrize(
    ("field", "wrong"),
    [
        ("identity", ""),
        ("identity", None),
        ("identity", 1),
        ("identity", "x" * (limits.NAME_CHARS_MAX + 1)),
        ("identity", "with\nbreak"),
        ("identity", "with\x00zero"),
        ("identity", "\x7f"),
        ("services", []),
        ("services", "a"),
        ("services", None),
        ("services", [""]),
        ("services", ["a", 1]),
        ("services", ["a\tb"]),
        ("services", ["a"] * (limits.SERVICES_PER_WORKER_MAX + 1)),
        ("slots", 0),
        ("slots", limits.SLOTS_MAX + 1),
        ("slots", 1.0),
        ("slots", "1"),
        ("slots", None),
        ("heartbeat_ms", 0),
        ("heartbeat_ms", "1000"),
        ("version", "1"),
        ("version", 1.0),
        ("digest", 1),
        ("digest", None),
    ],
)
def test_a_connect_with_a_wrong_field_is_told_which_one(field: str, wrong: object) -> None:
    error = refusal(connect(**{field: wrong}))
    assert error.code == reasons.BAD_HEADER
    assert field in str(error)


# Not so yet: the pattern ends in `$`, which wants to be `\\Z`.
@pytest.mark.parametrize("field", ["identity", "services"])
def test_a_name_does_not_end_in_a_line_break(field: str) -> None:
    error = refusal(connect(**{field: "w\n" if field == "identity" else ["a\n"]}))
    assert error.code == reasons.BAD_HEADER


@pytest.mark.parametrize(
    ("request_", "kind", "fields"),
    [
        ("TASK", "REQUEST", {}),
        ("TASK", "RESPONSE", {"outcome": "ok"}),
        ("TASK", "RESPONSE", {"outcome": None}),
        ("TASK", "RESPONSE", {"reason": 1}),
        ("CONNECT", "REQUEST", {"identity": "w"}),
        ("CONNECT", "REQUEST", {"services": ["a"]}),
        ("CONFIG", "RESPONSE", {"identity": "w"}),
        ("CONFIG", "RESPONSE", {"identity": "w", "heartbeat_ms": 1, "current": "true"}),
        ("CHECKCONFIG", "REQUEST", {"identity": "w", "services": []}),
        ("PONG", "RESPONSE", {"version": "1"}),
        ("NEEDBROKER", "REQUEST", {}),
        ("NEEDBROKER", "REQUEST", {"services": ["a"], "role": "admin"}),
        ("NEEDBROKER", "REQUEST", {"services": [""]}),
        ("ERROR", "RESPONSE", {}),
    ],
)
def test_other_messages_need_their_fields_too(request_: str, kind: str, fields: dict[str, Any]) -> None:
    assert refusal(json.dumps({"request": request_, "type": kind} | fields).encode()).code == reasons.BAD_HEADER


def test_a_name_at_its_longest_is_fine() -> None:
    longest = "é" * limits.NAME_CHARS_MAX
    assert headers.read(connect(identity=longest, services=[longest])) == headers.ConnectRequest(longest, [longest])
    assert headers.read(task(service=longest)) == headers.TaskRequest(longest)


def test_every_struct_is_prepared_before_threads_use_it() -> None:
    """msgspec does so when it is first used, and a worker whose first tasks came at once has died of it."""
    program = """
from msgspec import ValidationError, _utils, convert
from famulus.core.steward import answers
from famulus.wire import headers

def refuse(obj):
    raise AssertionError(f"{obj} is only prepared now")

_utils.get_class_annotations.__code__ = refuse.__code__
kinds = [kind for kind in vars(answers).values() if isinstance(kind, type) and kind.__module__ == answers.__name__]
assert len(kinds) > 10
for kind in (*headers.MESSAGES.values(), *kinds):
    try:
        convert({}, kind)
    except ValidationError:
        pass  # it wants fields, so it is known by now
"""
    subprocess.run([sys.executable, "-c", program], check=True)


@pytest.mark.parametrize(
    "more",
    [
        {"content_type": 5},
        {"content_type": "x" * 256},
        {"headers": []},
        {"headers": {"a": 1}},
        {"headers": {"a": {"b": "c"}}},
        {"headers": None},
    ],
    ids=str,
)
def test_a_content_type_and_headers_are_texts(more: dict[str, Any]) -> None:
    header = headers.write_fields({"request": "TASK", "type": "REQUEST", "service": "echo", **more})
    with pytest.raises(ProtocolError, match="bad_header"):
        headers.read(header)


def test_what_a_client_says_of_its_own_is_read_as_it_was_written() -> None:
    more = headers.write_more("application/json", {"customer": 'M"üller'}, 'k"ey')
    header = headers.write("TASK", "REQUEST", service="echo")[:-1] + more + b"}"
    request = headers.read(header)
    assert isinstance(request, headers.TaskRequest)
    assert (request.content_type, request.headers) == ("application/json", {"customer": 'M"üller'})
    assert request.key == 'k"ey'
    assert headers.write_more() == b""
