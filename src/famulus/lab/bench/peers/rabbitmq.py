"""RabbitMQ as a peer, with pika and direct reply-to, its quickest way back."""

from __future__ import annotations

import importlib
import tempfile
from pathlib import Path
from typing import Any

from famulus.lab.bench.fleet import Crew, Member
from famulus.lab.bench.meter import Meter, Order
from famulus.lab.bench.peers.peer import Needs, Peer, program
from famulus.lab.processes import free_port

REPLY_TO = "amq.rabbitmq.reply-to"
#: Where Debian keeps the script itself: the one on the PATH insists on being root.
SCRIPT = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")


class Home(Member):
    """Erlang's name registry, which would otherwise stay behind as a daemon, and the folder of the server.

    It is the first of its crew and so stopped last: then nobody writes into the folder any more.
    """

    def __init__(self) -> None:
        self.port = free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="famulus-bench-", ignore_cleanup_errors=True)
        self.folder = self._folder.name
        command = [program("epmd"), "-port", str(self.port), "-address", "127.0.0.1"]
        super().__init__("server", command)

    def stop(self) -> None:
        super().stop()
        self._folder.cleanup()


def start(crew: Crew, window: int) -> str:
    home, port = Home(), free_port()
    crew.append(home)
    script = str(SCRIPT) if SCRIPT.exists() else program("rabbitmq-server")
    settings = _settings(home, port)
    command = ["env", *(f"{name}={value}" for name, value in settings.items()), script]
    crew.start("server", command, stderr=True).wait_until("Server startup complete")
    crew.worker("rabbitmq", str(port))
    return str(port)


def _settings(home: Home, port: int) -> dict[str, object]:
    return {
        "HOME": home.folder,
        "ERL_EPMD_PORT": home.port,
        "RABBITMQ_NODENAME": "famulus-bench@localhost",
        "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
        "RABBITMQ_NODE_PORT": port,
        "RABBITMQ_DIST_PORT": free_port(),
        "RABBITMQ_MNESIA_BASE": home.folder,
        "RABBITMQ_LOGS": "-",
        # Nothing from this machine's own configuration of RabbitMQ.
        "RABBITMQ_ENABLED_PLUGINS_FILE": f"{home.folder}/plugins",
        "RABBITMQ_CONF_ENV_FILE": f"{home.folder}/none",
        "RABBITMQ_CONFIG_FILE": f"{home.folder}/none",
        # Otherwise a shell stays in between, which takes seconds to pass on a signal.
        "RUNNING_UNDER_SYSTEMD": "true",
    }


def channel(port: str) -> Any:
    pika = importlib.import_module("pika")
    return pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", int(port))).channel()


def worker(port: str) -> None:
    through = channel(port)
    through.queue_declare("echo", auto_delete=True)

    def echo(_: Any, method: Any, properties: Any, body: bytes) -> None:
        through.basic_publish("", properties.reply_to, body)

    through.basic_consume("echo", echo, auto_ack=True)
    print("worker is ready", flush=True)
    through.start_consuming()


def client(order: Order) -> Meter:
    through = channel(order.address)
    properties = importlib.import_module("pika").BasicProperties(reply_to=REPLY_TO)
    meter, stream = order.begin()
    opened = 0

    def ask() -> None:
        nonlocal opened
        body = next(stream, None)
        if body is not None:
            through.basic_publish("", "echo", body, properties)
            opened += 1

    def take(_: Any, method: Any, properties: Any, body: bytes) -> None:
        nonlocal opened
        opened -= 1
        meter.note(body)
        ask()
        if not opened:
            through.stop_consuming()

    # The replies must be consumed before the first request is published.
    through.basic_consume(REPLY_TO, take, auto_ack=True)
    for _ in range(order.window):
        ask()
    through.start_consuming()
    return meter


NEEDS = Needs({"rabbitmq-server": "rabbitmq-server", "epmd": "erlang-base"}, {"pika": "pika"})
PEER = Peer("rabbitmq", start, client, {"worker": worker}, NEEDS)
