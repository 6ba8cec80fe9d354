"""The envelopes and bodies of streams."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.errors import ProtocolError
from famulus.wire import stream

numbers = st.integers(0, stream.NUMBER_MAX)


@given(st.binary(max_size=251), numbers)
def test_a_part_has_the_envelope_of_its_task_and_a_number(envelope: bytes, number: int) -> None:
    assert stream.read_place(stream.write_place(envelope, number)) == (envelope, number)


@given(st.binary(max_size=251), numbers)
def test_a_credit_names_the_last_part_and_the_task(envelope: bytes, last: int) -> None:
    assert stream.read_credit(stream.write_credit(envelope, last)) == (envelope, last)


@pytest.mark.parametrize("read", [stream.read_place, stream.read_credit])
def test_what_is_too_short_is_a_fault(read: object) -> None:
    assert callable(read)
    with pytest.raises(ProtocolError):
        read(b"abc")


def test_progress_is_between_nothing_and_all() -> None:
    assert stream.read_progress(stream.write_progress(0.4, "resizing")) == (0.4, "resizing")
    assert stream.read_progress(stream.write_progress(7)) == (1.0, "")
    assert stream.read_progress(stream.write_progress(-1)) == (0.0, "")


@given(st.binary())
def test_whatever_it_is_it_is_progress_or_a_fault(body: bytes) -> None:
    try:
        told = stream.read_progress(body)
    except ProtocolError:
        return
    assert 0 <= told.done <= 1
    assert len(told.note) <= stream.NOTE_CHARS_MAX


def test_a_note_has_a_bounded_length() -> None:
    assert len(stream.read_progress(stream.write_progress(0.5, "x" * 1000)).note) == stream.NOTE_CHARS_MAX
