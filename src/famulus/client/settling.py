"""Gives the asyncio side what came of its tasks. Knows no sockets."""

from __future__ import annotations

from asyncio import Future

from famulus.client.connection import error_of
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
