"""Finds the message_id in the header of a task without reading the header.

Tasks of one client, or of one worker, mostly differ in nothing else. So whoever has read a header knows what another
one says that has the same bytes around its message_id.
"""

from __future__ import annotations

from typing import Final

from famulus.wire import limits

_TEXT_BYTES_MAX: Final = limits.MESSAGE_ID_CHARS_MAX + 2
_NAME: Final = b'"message_id"'
_BEFORE: Final = _NAME + b":"
#: A text of only these characters is the same in JSON: what can be seen in ASCII, and blanks.
_PLAIN: Final = bytes(code for code in range(0x20, 0x7F) if chr(code) not in '"\\')
#: Leaves them as they are, and changes any other.
_KEEPS_PLAIN: Final = bytes(code if code in _PLAIN else code ^ 1 for code in range(256))


def cut_out(header: bytes) -> tuple[bytes, bytes]:
    """What looks like the message_id, as a JSON text, and the header without it; nothing if there is no such thing.

    Where it was is beyond doubt: the rest has the name of the field just before, and nowhere earlier.
    """
    at = header.find(_BEFORE)
    if at < 0:
        return b"", b""
    start = at + len(_BEFORE)
    end = header.find(b'"', start + 1) + 1
    return (header[start:end], header[:start] + header[end:]) if end else (b"", b"")


def is_plain(text: bytes) -> bool:
    """Whether this is obviously the JSON text of a message_id that is allowed and not empty, without parsing it."""
    if not (2 < len(text) <= _TEXT_BYTES_MAX and text.startswith(b'"') and text.endswith(b'"')):
        return False
    inner = text[1:-1]
    return inner.translate(_KEEPS_PLAIN) == inner


def is_the_id(text: bytes, id_text: bytes, rest: bytes) -> bool:
    """Whether what was cut out of a header is the message_id that it has: no other field has that name, however it is
    spelled. Then a header with the same rest and another plain text says the same with another message_id."""
    return text == id_text and is_plain(text) and rest.count(_NAME) == 1 and b"\\" not in rest


class Cutter:
    """Cuts the ids out of many headers, of which most are like the one before."""

    __slots__ = ("_after", "_before", "_rest")

    def __init__(self) -> None:
        #: What was before and after the last id, and both together.
        self._before = self._after = self._rest = b""

    def cut(self, header: bytes) -> tuple[bytes, bytes]:
        """As `cut_out`, if what that gives is plain; otherwise nothing."""
        start, end = len(self._before), len(header) - len(self._after)
        # First of all that there is something between the two: in compiled code a slice must not end before it begins.
        if 0 < start < end and header.startswith(self._before) and header.endswith(self._after):
            text = header[start:end]
            if is_plain(text):
                # The very same object as the last time: whoever looks it up finds it quicker.
                return text, self._rest
        text, rest = cut_out(header)
        if not is_plain(text):
            return b"", b""
        start = header.index(_BEFORE) + len(_BEFORE)
        self._before, self._after, self._rest = header[:start], header[start + len(text) :], rest
        return text, rest
