"""A program with a pass that fails in many ways, and tells of each all that a debugger would.

python pass_holder.py FRONTEND BACKEND PASS
"""

from __future__ import annotations

import asyncio
import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import msgspec

from famulus import AsyncClient, Client, Worker
from famulus.net.passes import Pass, PassFile, read_pass
from famulus.wire.curve import CurveKey, Seal

NOBODY = "tcp://127.0.0.1:1"


def held(path: str) -> tuple[Pass, PassFile, CurveKey, Seal]:
    """All that has the secret in it."""
    file = msgspec.json.decode(Path(path).read_bytes(), type=PassFile)
    assert file.secret_key
    key = CurveKey(bytes.fromhex(file.secret_key))
    found = read_pass(path)
    assert found is not None
    return found, file, key, Seal(key.secret, is_client=True, sent=0, heard=0)


def fail(attempt: Callable[..., object], *arguments: object) -> None:
    try:
        attempt(*arguments)
    except Exception as error:
        print("".join(traceback.TracebackException.from_exception(error, capture_locals=True).format()))
    else:
        raise AssertionError("it was to fail")


def show(*objects: object) -> None:
    for each in objects:
        print(repr(each), repr(getattr(each, "__dict__", "")))


def call(path: str) -> None:
    """A broker that the pass does not know."""
    secrets = held(path)
    assert secrets
    Client(NOBODY, pass_file=path)


def serve(path: str) -> None:
    secrets = held(path)
    assert secrets
    worker = Worker(NOBODY, pass_file=path)
    worker.service("echo")(bytes.upper)
    worker.run()


async def ask(frontend: str, path: str) -> None:
    async with AsyncClient(frontend, pass_file=path) as client:
        show(client)
        await client.request("secret.plans", timeout=10)


def main(frontend: str, backend: str, path: str) -> None:
    show(*held(path), Worker(backend, pass_file=path))
    fail(call, path)
    fail(serve, path)
    with Client(frontend, pass_file=path) as client:
        show(client)
        fail(client.request, "secret.plans")
    fail(asyncio.run, ask(frontend, path))


if __name__ == "__main__":
    main(*sys.argv[1:])
