"""Placeholder."""

from __future__ import annotations


def ask_saving(chosen, terms, checkpoint):  # type: ignore
    raise NotImplementedError
