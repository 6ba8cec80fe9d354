"""Texts as numbers of 64 bits, always the same for the same text, and what several such numbers have in common.

Two texts may have the same number. So whoever asks which are alike gets more than asked for, and has to look again.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from famulus.pipeline.columnar.rows import Array

_SEED: Final = np.uint64(0x9E3779B97F4A7C15)
_ODD: Final = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT: Final = np.uint64(29)
_WORD: Final = 8


def of_texts(column: pa.ChunkedArray) -> Array:
    """Without nulls."""
    parts = [_of_array(chunk) for chunk in column.chunks if len(chunk)]
    return np.concatenate(parts) if parts else np.empty(0, np.uint64)


def of_numbers(numbers: Array, salt: Array) -> Array:
    """Of each number together with another one."""
    return _mixed(_mixed(salt.astype(np.uint64) + _SEED) ^ numbers.view(np.uint64))


def _of_array(texts: pa.Array) -> Array:
    if pa.types.is_dictionary(texts.type):
        found: Array = _of_array(texts.dictionary)[texts.indices.to_numpy()]
        return found
    ends = np.frombuffer(texts.buffers()[1], np.int32)[texts.offset : texts.offset + len(texts) + 1]
    characters = np.frombuffer(texts.buffers()[2] or b"", np.uint8)
    lengths = np.diff(ends)
    if (lengths == lengths[0]).all():
        length = int(lengths[0])
        return _of_bytes(characters[ends[0] : ends[0] + length * len(texts)].reshape(len(texts), length))
    hashes = np.empty(len(texts), np.uint64)
    for length in np.unique(lengths):
        own = np.flatnonzero(lengths == length)
        hashes[own] = _of_bytes(characters[ends[own][:, None] + np.arange(length)])
    return hashes


def _of_bytes(texts: Array) -> Array:
    """Of a matrix with a text in each row."""
    rows, length = texts.shape
    words = -(-length // _WORD)
    if length % _WORD:
        padded = np.zeros((rows, words * _WORD), np.uint8)
        padded[:, :length] = texts
        texts = padded
    columns = np.ascontiguousarray(texts).view("<u8") if words else np.empty((rows, 0), np.uint64)
    hashes = np.full(rows, _SEED + np.uint64(length), np.uint64)
    for word in range(words):
        hashes = _mixed(hashes ^ columns[:, word])
    return hashes


def _mixed(numbers: Array) -> Array:
    mixed: Array = (numbers ^ (numbers >> _SHIFT)) * _ODD
    mixed ^= mixed >> _SHIFT
    return mixed


def is_among(wanted: Array, ordered: Array) -> Array:
    """Where one is among others that are in order."""
    if not len(ordered):
        return np.zeros(len(wanted), bool)
    found: Array = ordered[np.minimum(np.searchsorted(ordered, wanted), len(ordered) - 1)] == wanted
    return found


def repeated(ordered: Array) -> Array:
    """Those that are there more than once, each once, of some that are in order."""
    again = ordered[1:][ordered[1:] == ordered[:-1]]
    found: Array = again[np.append(True, again[1:] != again[:-1])] if len(again) else again
    return found
