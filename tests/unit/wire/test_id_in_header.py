"""A message_id is found without reading the header only where there is no doubt about it."""

from __future__ import annotations

import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.wire import headers
from famulus.wire.id_in_header import Cutter, cut_out, is_plain, is_the_id

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def test_it_is_cut_out_where_it_is() -> None:
    header = b'{"service":"echo","message_id":"a b/c","client_token":"t"}'
    assert cut_out(header) == (b'"a b/c"', b'{"service":"echo","message_id":,"client_token":"t"}')


@pytest.mark.parametrize(
    "header", [b"", b"{}", b'"message_id":', b'{"message_id":5}', b'{"message_id":"a}', b'{"id":"a"}']
)
def test_where_there_is_none_nothing_is_found(header: bytes) -> None:
    text, _ = cut_out(header)
    assert not is_plain(text)


@pytest.mark.parametrize("text", ["a", "x" * 128, "order 7/a:b#1", "{}[],:", "~!@$%^&*()"])
def test_what_is_plain_is_the_same_in_json(text: str) -> None:
    assert is_plain(headers.write_text(text))
    assert headers.write_text(text) == f'"{text}"'.encode()


@pytest.mark.parametrize("text", ["", "x" * 129, 'a"b', "a\\b", "ü", "\t", "\x00", "\x7f", "\u2028"])
def test_what_is_not_plain_has_to_be_read(text: str) -> None:
    assert not is_plain(headers.write_text(text))
    assert not is_plain(b'"%b"' % text.encode())


@given(
    st.dictionaries(TEXTS | st.just("message_id"), TEXTS | st.dictionaries(TEXTS, TEXTS, max_size=2), max_size=4), TEXTS
)
def test_with_another_id_the_rest_says_the_same(fields: dict[str, object], other: str) -> None:
    header = headers.write_fields(fields)
    message_id = fields.get("message_id", "")
    text, rest = cut_out(header)
    other_text = headers.write_text(other)
    if not (
        isinstance(message_id, str) and is_the_id(text, headers.write_text(message_id), rest) and is_plain(other_text)
    ):
        return
    at = header.index(text, header.index(b'"message_id":'))
    another = header[:at] + other_text + header[at + len(text) :]
    assert cut_out(another) == (other_text, rest)
    assert json.loads(another) == fields | {"message_id": other}


#: What is around an id, and what it is; not all of them are what they seem.
BEGINS = st.sampled_from(
    [b'{"service":"s","message_id":', b'{"a":"message_id":', b'{"message_id":"b","message_id":', b"{"]
)
ENDS = st.sampled_from([b"}", b'","x":"y"}', b',"message_id":"z"}', b"", b'"'])
INSIDE = st.sampled_from(
    [b"a", b"b7/c d", b"", b"a\\n", b'a"b', b'a","message_id":"b', "ü".encode(), b"\t", b"x" * 129]
)
IDS = INSIDE.map(lambda inside: b'"%b"' % inside) | st.sampled_from([b"", b"5", b'"', b'"ab', b'ab"'])


@given(st.lists(st.tuples(BEGINS, ENDS), min_size=1, max_size=2), st.lists(IDS, min_size=2, max_size=12), st.randoms())
def test_among_many_alike_each_id_is_found_as_if_it_were_the_first(
    around: list[tuple[bytes, bytes]], ids: list[bytes], chance: random.Random
) -> None:
    cutter = Cutter()
    for each in ids:
        begin, end = chance.choice(around)
        header = begin + each + end
        text, rest = cut_out(header)
        assert cutter.cut(header) == ((text, rest) if is_plain(text) else (b"", b""))


@pytest.mark.parametrize("text", [b'"ab', b'ab"', b'""', b'"', b""])
def test_what_is_no_id_is_none_after_others_either(text: bytes) -> None:
    cutter = Cutter()
    assert cutter.cut(b'{"message_id":"x"}')[0] == b'"x"'
    assert cutter.cut(b'{"message_id":%b}' % text) == (b"", b"")


def test_a_header_that_is_shorter_than_what_was_around_the_last_id_is_none_of_its_kind() -> None:
    cutter = Cutter()
    assert cutter.cut(b'{"message_id":"message_id":"x"') == (b'"message_id"', b'{"message_id"::"x"')
    assert cutter.cut(b'{"message_id":"x"') == (b'"x"', b'{"message_id":')
    assert cutter.cut(b'{"message_id":') == (b"", b"")
