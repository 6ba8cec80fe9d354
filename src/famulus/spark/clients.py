"""The clients of a Python process of Spark: one for each way to the brokers, kept from one Spark task to the next.

Nobody closes them. Spark ends its Python processes by a signal or `os._exit`, after which no code of ours would run; a
broker takes the end of the connection for what it is, and by then nothing is open.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from famulus import Client
from famulus.errors import SettingsError


@dataclass(frozen=True)
class Contact:
    """How an executor gets to a broker."""

    #: Without any: what FAMULUS_FRONTEND says there, or the pass.
    broker: tuple[str, ...] = ()
    #: A path on the executors, or the name of a file that was sent there by `SparkContext.addFile`.
    pass_file: str = ""


#: Most jobs have one. Whoever uses more at once gets them, and only idle ones are closed.
KEPT_MAX: Final = 4

_clients: OrderedDict[tuple[Contact, str], Client] = OrderedDict()
_in_use: list[tuple[Contact, str]] = []


@contextmanager
def client_of(contact: Contact, token: str) -> Iterator[Client]:
    """By the token brokers know its tasks again, whichever process has asked."""
    key = contact, token
    client = _clients.get(key)
    if client is None:
        client = _clients[key] = _open(contact, token)
    _clients.move_to_end(key)
    _in_use.append(key)
    try:
        yield client
    finally:
        _in_use.remove(key)
        for other in [each for each in _clients if each not in _in_use][: max(0, len(_clients) - KEPT_MAX)]:
            _clients.pop(other).close()


def _open(contact: Contact, token: str) -> Client:
    broker = list(contact.broker) or None
    if not contact.pass_file:
        return Client(broker, token=token)
    path = Path(contact.pass_file)
    if path.is_absolute():
        return Client(broker, token=token, pass_file=path)
    from pyspark import SparkFiles

    sent = Path(SparkFiles.get(path.name))
    if not sent.exists():
        raise SettingsError(f"pass_file: {path} was not sent to the executors; do so by spark.sparkContext.addFile")
    # Spark keeps it in a folder of this user alone, but lets others read the file itself, and no pass may be like that.
    with tempfile.TemporaryDirectory(prefix="famulus-pass-") as folder:
        for each in (sent, sent.with_suffix(".key")):
            if each.exists():
                private = Path(shutil.copyfile(each, Path(folder) / each.name))
                private.chmod(0o600)
        return Client(broker, token=token, pass_file=Path(folder) / sent.name)
