"""What is remembered of a header says exactly what reading it says."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from famulus.core.session import header_cache
from famulus.core.session.header_cache import HeaderCache
from famulus.wire import headers, limits

PLAIN_ID = "0f3a-4c5d"


def header_of(message_id: Any, **fields: Any) -> bytes:
    told = {"request": "TASK", "type": "REQUEST", "service": "echo", "message_id": message_id, **fields}
    return json.dumps(told, separators=(",", ":")).encode()


def said(reader: HeaderCache, header: bytes) -> object:
    task = reader.given(b"ticket", header, b"body", 0)
    return task and (task.parsed.service, task.parsed.timeout_ms, task.message_id, task.parsed.answer_tail)


def read(header: bytes) -> object:
    task = headers.read_task_request(header)
    return task and (task.service, task.timeout_ms, task.message_id, headers.answer_tail(task.service))


def knows(reader: HeaderCache, header: bytes) -> bool:
    """Whether it needs nobody to read it: then what it says was read before, and is at hand."""
    first, second = (reader.given(b"ticket", header, b"body", 0) for _ in range(2))
    return first is not None and second is not None and first.parsed is second.parsed


def learn(reader: HeaderCache, header: bytes) -> None:
    for _ in range(header_cache.SKIPPED + 2):
        said(reader, header)


@pytest.fixture
def reader() -> HeaderCache:
    reader = HeaderCache()
    learn(reader, header_of(PLAIN_ID, attempt=1, timeout_ms=500))
    return reader


def test_one_of_a_kind_that_is_known_is_not_read(reader: HeaderCache) -> None:
    assert knows(reader, header_of("another-1", attempt=1, timeout_ms=500))
    assert not knows(HeaderCache(), header_of("another-1", attempt=1, timeout_ms=500))


@pytest.mark.parametrize("other", [{"timeout_ms": 499}, {"service": "other"}, {"attempt": 2}])
def test_one_of_another_kind_is_read(reader: HeaderCache, other: dict[str, Any]) -> None:
    assert not knows(reader, header_of("another-1", **{"attempt": 1, "timeout_ms": 500} | other))


def test_while_all_are_different_few_are_looked_for(reader: HeaderCache) -> None:
    known = header_of("another-1", attempt=1, timeout_ms=500)
    said(reader, header_of("another-1", attempt=1, timeout_ms=499))
    for _ in range(header_cache.SKIPPED):
        task = reader.given(b"ticket", known, b"body", 0)
        assert task is not None
        assert task.parsed not in reader._known.values()
    assert knows(reader, known)


def test_the_task_has_its_own_id_and_frames(reader: HeaderCache) -> None:
    header = header_of("id-7", attempt=1, timeout_ms=500)
    task = reader.given(b"t7", header, b"body 7", 3)
    assert task is not None
    assert (task.ticket, task.message_id, task.id_text) == (b"t7", "id-7", b'"id-7"')
    assert (task.header, task.body, task.place) == (header, b"body 7", 3)
    assert (task.parsed.service, task.parsed.timeout_ms) == ("echo", 500)


def test_what_comes_once_is_not_remembered() -> None:
    reader = HeaderCache()
    for left_ms in range(1, 500):
        said(reader, header_of("a", timeout_ms=left_ms))
    assert not reader._known


def test_no_more_kinds_are_remembered_than_there_is_room_for() -> None:
    reader = HeaderCache()
    for left_ms in range(1, 2 * header_cache.CACHED_MAX):
        learn(reader, header_of("a", timeout_ms=left_ms))
        assert 1 <= len(reader._known) <= header_cache.CACHED_MAX


def test_no_more_services_are_remembered_than_a_worker_has() -> None:
    reader = HeaderCache()
    for number in range(2 * limits.SERVICES_PER_WORKER_MAX + 2):
        header = header_of("a", service=f"s{number}")
        assert said(reader, header) == read(header)
        assert len(reader._answer_tails) <= limits.SERVICES_PER_WORKER_MAX


TWO_IDS = b'{"request":"TASK","type":"REQUEST","service":"echo","x":{"message_id":"%b"},"message_id":"%b"}'


@pytest.mark.parametrize(
    ("known", "header"),
    [
        (TWO_IDS % (b"a", b"a"), TWO_IDS % (b"b", b"a")),
        (TWO_IDS % (b"", b""), TWO_IDS % (b"b", b"")),
        (
            rb'{"message_id":"a","message\u005fid":"a","request":"TASK","type":"REQUEST","service":"s"}',
            rb'{"message_id":"b","message\u005fid":"a","request":"TASK","type":"REQUEST","service":"s"}',
        ),
        (header_of("a"), header_of("a" * (limits.MESSAGE_ID_CHARS_MAX + 1))),
        (header_of("a"), header_of("a").replace(b'"a"', b'"\\"')),
        (header_of("a"), header_of("a").replace(b'"a"', b'"\n"')),
        (header_of("a"), header_of("a").replace(b'"a"', b'"\xff"')),
        (header_of("a"), header_of("a").replace(b'"a"', b"7")),
        (header_of("a"), header_of("a").replace(b'"a"', b"")),
        (header_of("a"), header_of("ä")),
        (header_of("a"), header_of("")),
        (header_of("a"), header_of("a").replace(b'"message_id":"a"', b'"message_id":\0"a"')),
        (header_of("a"), b""),
        (header_of("a"), b'"message_id":'),
    ],
)
def test_a_header_that_only_looks_like_one_that_is_known_is_read(known: bytes, header: bytes) -> None:
    reader = HeaderCache()
    for _ in range(header_cache.SKIPPED + 3):
        assert said(reader, known) == read(known)
    assert said(reader, header) == read(header)


texts = st.text(st.sampled_from('ab-"\\:,{}\0é'), max_size=6) | st.sampled_from(["message_id", "", PLAIN_ID])
values = st.recursive(texts | st.integers(0, 3), lambda inner: st.dictionaries(texts, inner, max_size=2), max_leaves=3)
proper = st.builds(header_of, texts | st.integers(0, 1), x=values, timeout_ms=st.sampled_from([5, 6, None, "no"]))


@st.composite
def broken(draw: st.DrawFn) -> bytes:
    """A header of which some bytes are others."""
    header = draw(proper)
    start = draw(st.integers(0, len(header)))
    return header[:start] + draw(st.binary(max_size=3)) + header[start + draw(st.integers(0, 3)) :]


@given(st.lists(proper | broken(), max_size=8), st.integers(0, 7))
@example([header_of("a")] * 3, 0)
def test_it_says_what_reading_says(seen: list[bytes], again: int) -> None:
    reader = HeaderCache()
    for header in [*seen, *seen[again:], *seen]:
        assert said(reader, header) == read(header)
        learn(reader, header)
