"""What a client adds to the header of a task: the content type of its body, its key, and headers of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from famulus.wire import headers, limits

#: The broker counts them among all values of the header, and the rest of the header needs some room, too.
OWN_HEADERS_MAX: Final = 256
OWN_HEADERS_BYTES_MAX: Final = 8 * 1024


def more_fields(content_type: str, own: Mapping[str, str] | None, key: str = "") -> bytes:
    """What the header of a task says beyond what all of them say."""
    if not isinstance(key, str):
        raise TypeError(f"a key is a text, not {key!r}")
    if len(key) > limits.NAME_CHARS_MAX:
        raise ValueError(f"a key has at most {limits.NAME_CHARS_MAX} characters")
    own = own or {}
    _check_texts(own)
    if len(own) > OWN_HEADERS_MAX:
        raise ValueError(f"a task has at most {OWN_HEADERS_MAX} headers of its own, not {len(own)}")
    try:
        more = headers.write_more(content_type, own, key)
    except UnicodeEncodeError:
        raise ValueError("headers and keys are valid Unicode") from None
    if len(more) > OWN_HEADERS_BYTES_MAX:
        raise ValueError(f"the headers of a task have at most {OWN_HEADERS_BYTES_MAX} bytes, not {len(more)}")
    return more


def _check_texts(own: object) -> None:
    if not isinstance(own, Mapping) or not all(isinstance(text, str) for pair in own.items() for text in pair):
        raise TypeError(f"headers are texts by name, not {own!r}")
