"""Gives the asyncio side what came of its tasks. Knows no sockets."""

from __future__ import annotations

from asyncio import Future
from contextlib import suppress

from famulus.client.connection import error_of, orphan_error
from famulus.client.window import Window
from famulus.core.session.client import Done


def settle(ended: list[Done]) -> None:
    for done in ended:
        token = done.token
        if isinstance(token, Window):
            token(done)
            continue
        assert isinstance(token, Future)
        if token.done():
            continue  # cancelled: nobody wants to know
        if done.outcome == "OK":
            token.set_result(done.body)
        else:
            token.set_exception(error_of(done))


def orphan(tokens: list[object]) -> None:
    """In a child that was forked: these tasks are the parent's, and nobody here is to wait for them."""
    for token in tokens:
        # The parent's loop may not like to be told by another thread than its own.
        with suppress(Exception):
            if isinstance(token, Window):
                token.orphan(orphan_error())
            elif isinstance(token, Future) and not token.done():
                token.set_exception(orphan_error())
                token.exception()  # seen: or else it would be logged when nobody asks for it
