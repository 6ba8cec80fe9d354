"""The clients that a Python process of Spark keeps."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from famulus.errors import SettingsError
from famulus.net.passes import PassBroker, PassFile, read_pass, write_pass
from famulus.spark import clients
from famulus.spark.clients import KEPT_MAX, Contact, client_of


class Opened:
    """Stands for a client."""

    all: list[Opened]

    def __init__(self, broker: list[str] | None, token: str, pass_file: Path | None = None) -> None:
        self.broker, self.token = broker, token
        self.admitted = read_pass(pass_file)
        self.is_closed = False
        Opened.all.append(self)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture(autouse=True)
def opened(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Opened]]:
    Opened.all = []
    monkeypatch.setattr(clients, "Client", Opened)
    clients._clients.clear()
    yield Opened.all
    clients._clients.clear()


def test_a_client_is_kept_for_the_next_task_of_spark(opened: list[Opened]) -> None:
    for _ in range(3):
        with client_of(Contact(("b1",)), "token one") as client:
            assert client.broker == ["b1"]  # type: ignore[attr-defined]
    with client_of(Contact(), "token one"), client_of(Contact(("b1",)), "token two"):
        pass
    assert [each.broker for each in opened] == [["b1"], None, ["b1"]]


def test_those_that_nobody_uses_are_closed_when_there_are_many(opened: list[Opened]) -> None:
    with client_of(Contact(), "in use"):
        for number in range(2 * KEPT_MAX):
            with client_of(Contact(), str(number)):
                pass
        assert not opened[0].is_closed
        assert sum(not each.is_closed for each in opened) == KEPT_MAX


def test_a_pass_that_spark_has_sent_is_private_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opened: list[Opened]
) -> None:
    sent = tmp_path / "shop.pass"
    broker = PassBroker("tcp://127.0.0.1:1", "tcp://127.0.0.1:2", "00" * 32)
    write_pass(sent, PassFile(1, "a network", "shop", [broker], "11" * 32))
    sent.chmod(0o755)  # as Spark leaves it
    with pytest.raises(SettingsError, match="others may read this pass"):
        read_pass(sent)
    files: Any = pyspark.SparkFiles
    monkeypatch.setattr(files, "get", lambda name: str(tmp_path / name))
    with client_of(Contact(pass_file="shop.pass"), "token"):
        assert opened[0].admitted is not None
        assert opened[0].admitted.name == "shop"
    with pytest.raises(SettingsError, match="by spark"), client_of(Contact(pass_file="x.pass"), ""):
        pass
