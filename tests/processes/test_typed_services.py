"""Services with types through a real broker: threads, processes and coroutines, JSON and MessagePack."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable

import pytest
from tests.processes.conftest import HERE, BrokerProcess, Process
from tests.processes.typed_worker import Size, make, packed

from famulus import AsyncClient, Client, TaskError


@pytest.fixture
def start(broker: BrokerProcess, processes: Callable[..., Process]) -> Callable[[int], Process]:
    def start(children: int) -> Process:
        worker = processes(sys.executable, str(HERE / "typed_worker.py"), broker.backend, str(children))
        worker.wait_for_line("is ready: ")
        return worker

    return start


@pytest.mark.parametrize("children", [0, 2])
def test_values_there_and_back(broker: BrokerProcess, start: Callable[[int], Process], children: int) -> None:
    worker = start(children)
    with Client(broker.frontend) as client:
        for service in (make, packed):
            thumb = client.call(service, Size(width=64))
            assert thumb.name == "64x0"
            assert (thumb.pid == worker.pid) == (not children)
            assert client.submit(service, Size(1, 2)).result().name == "1x2"
            assert [each.name for each in client.map(service, map(Size, range(3)))] == ["0x0", "1x0", "2x0"]
        assert client.call("add", a=1, b=2) == 3
        assert client.call("whose", headers={"customer": "Müller"}) == {"customer": "Müller"}
        # Any other client, with plain JSON.
        assert client.request("add", b'{"a": 40, "b": 2}') == b"42"
        with pytest.raises(TaskError, match="bad_arguments: width: expected int, got str") as caught:
            client.call(make, Size(width="wide"))  # type: ignore[arg-type]
        assert caught.value.code == "bad_arguments"
    assert "ERROR" not in worker.output, "it is not the worker's fault"


def test_values_with_asyncio(broker: BrokerProcess, start: Callable[[int], Process]) -> None:
    start(0)

    async def main() -> None:
        async with AsyncClient(broker.frontend) as client:
            assert (await client.call(make, Size(1, 2))).name == "1x2"
            assert (await client.submit(packed, Size(3, 4))).name == "3x4"
            assert [each.name async for each in client.map(packed, map(Size, range(3)))] == ["0x0", "1x0", "2x0"]
            assert await client.call("later", words=["a", "b"]) == "a b"
            assert await client.call("whose", headers={"a": "b"}, timeout=5) == {"a": "b"}
            answers = client.map("whose", [b""], headers={"c": "d"})
            assert [answer async for answer in answers] == [b'{"c":"d"}']

    asyncio.run(main())
