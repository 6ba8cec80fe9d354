"""What a broker says is changed on its way to a client: it hangs up, believes nothing of it, and goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

import pytest
from tests.processes.conftest import wait_until
from tests.processes.secured import Secured, goes_on

from famulus import Client
from famulus.errors import OutcomeError
from famulus.lab.relay import CHUNK_BYTES, Relay
from famulus.net.passes import PassBroker, PassFile, write_pass

#: All of 127.0.0.0/8 is this machine: the client knows the broker at this address, and comes through the relay.
HOST = "127.0.0.2"
BODY_BYTES = 200

#: What is passed on instead of a piece, of which there is one for each answer; None: nothing, until the next one comes.
Change = Callable[[list[bytes]], bytes | None]


class Meddler(Relay):
    """Changes what the broker says, once it was told to, and only once."""

    def __init__(self, port: int) -> None:
        super().__init__(HOST, "127.0.0.1", port)
        self.change: Change | None = None
        self.connections = 0
        #: The pieces that the change has been shown.
        self.held: list[bytes] = []
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.open(), self._loop).result(10)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self.close(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if writer.get_extra_info("sockname")[0] != HOST:
            await super()._pass(reader, writer)
            return
        self.connections += 1
        with suppress(OSError):
            while chunk := await reader.read(CHUNK_BYTES):
                if self.change is not None:
                    self.held.append(chunk)
                    changed = self.change(self.held)
                    if changed is None:
                        continue
                    self.change, chunk = None, changed
                writer.write(chunk)
                await writer.drain()


def flipped(held: list[bytes]) -> bytes:
    """Within the body, which is at the end: everything else would still be well-formed."""
    piece = bytearray(held[0])
    piece[-20] ^= 1
    return bytes(piece)


def repeated(held: list[bytes]) -> bytes:
    return 2 * held[0]


def reordered(held: list[bytes]) -> bytes | None:
    return held[1] + held[0] if len(held) == 2 else None


def taken_away(held: list[bytes]) -> bytes | None:
    return held[1] if len(held) == 2 else None


def cut(held: list[bytes]) -> bytes | None:
    return held[0][:-1] + held[1] if len(held) == 2 else None


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    made = Secured(tmp_path_factory.mktemp("secured"))
    try:
        made.worker()
        yield made
    finally:
        made.close()


@pytest.fixture
def meddler(secured: Secured) -> Iterator[Meddler]:
    made = Meddler(secured.b1.ports[0])
    yield made
    made.stop()


@pytest.fixture
def client(secured: Secured, meddler: Meddler, tmp_path: Path) -> Iterator[Client]:
    """It knows no other way to the broker."""
    there = f"tcp://{HOST}:{meddler.port}"
    broker = PassBroker(there, secured.b1.backend, secured.public_key(secured.b1).hex(), "b1")
    path = tmp_path / "shop.pass"
    write_pass(path, PassFile(1, "a network", "shop", [broker], secured.keys["shop"].secret.hex()))
    with Client(there, pass_file=path, timeout=20.0) as client:
        yield client


@pytest.mark.parametrize("change", [flipped, repeated, reordered, taken_away, cut])
def test_a_client_that_hears_what_was_changed_hangs_up(client: Client, meddler: Meddler, change: Change) -> None:
    goes_on(client, times=3)
    assert meddler.connections == 1
    meddler.change = change
    asked = {}
    # One after the other, so that each answer is a piece of its own.
    for body in (b"1" * BODY_BYTES, b"2" * BODY_BYTES):
        asked[body] = client.submit("echo", body)
        wait_until(lambda: len(meddler.held) == len(asked) or meddler.change is None, 10, "an answer")
    wait_until(lambda: meddler.connections == 2, 10, "another connection")
    for body, future in asked.items():
        # It may have run, and nobody can say so any more.
        assert how_it_ended(future) in (body, "UNKNOWN")
    goes_on(client, times=10)
    assert meddler.connections == 2


def how_it_ended(future: Future[bytes]) -> bytes | str:
    try:
        return future.result(30)
    except OutcomeError as error:
        return error.outcome
