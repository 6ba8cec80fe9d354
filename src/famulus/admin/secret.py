"""A password on its way from a person to a broker. Whoever prints it sees that there is one, and nothing else."""

from __future__ import annotations


class Secret:
    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __repr__(self) -> str:
        return "Secret(hidden)"
