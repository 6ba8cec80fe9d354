"""A broker's membership of a network, as it lies in its folder: its key, the edits it holds, the secret for joining."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from famulus.broker.edit_log import EditLog, scan
from famulus.broker.folder import Folder, Network, plainly
from famulus.broker.keys import BrokerKey, Secret, verify
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import Effective, effective
from famulus.core.config.schema import Broker
from famulus.errors import SettingsError

SECRET_BYTES_MAX = 4096

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SignedEdit).decode


class Membership:
    """Open, it belongs to one process: the log is locked."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self.network: Network = self.folder.read_network()
        self.key = BrokerKey.load(self.folder.key)
        self._log = EditLog(self.folder.edits)
        self.edits = EditSet(self.network.network_id, verify)
        reading = self._log.read()
        #: What is wrong with the log, in words; what was dropped is pulled again from the peers.
        self.damage = [str(damage) for damage in reading.damage]
        added = self.edits.add(_readable(reading.records))
        self.damage += [refusal.reason for refusal in added.refused]

    @property
    def identity(self) -> str:
        return self.network.identity

    def write(self, edits: list[SignedEdit] | tuple[SignedEdit, ...]) -> None:
        """On the disk when this returns; a SettingsError, and the log as it was, if that cannot be."""
        self._log.append(map(_encode, edits))

    def secret(self) -> Secret:
        """Empty for a broker that joined by its key, and was never told."""
        path = secret_path(self.folder)
        return read_secret(path) if path.exists() else Secret("")

    def close(self) -> None:
        self._log.close()


def _readable(records: list[bytes]) -> list[SignedEdit]:
    edits = []
    for record in records:
        try:
            edits.append(_decode(record))
        except msgspec.DecodeError:
            continue  # a whole record that is no edit: nothing that a broker wrote
    return edits


@contextmanager
def new(folder: Folder) -> Iterator[None]:
    """A folder that becomes a member's here, or is as empty as before: nothing is in the way of the next try."""
    prepared = folder.is_prepared
    if not prepared:
        folder.create()
    try:
        yield
    except BaseException:
        for part in (secret_path(folder), folder.edits, folder.network):
            part.unlink(missing_ok=True)
        if not prepared:
            folder.key.unlink(missing_ok=True)
        raise


def own_key(folder: Folder) -> BrokerKey:
    """The key that was prepared for this folder's broker, or else a new one."""
    return BrokerKey.load(folder.key) if folder.key.exists() else BrokerKey.create(folder.key)


def prepare(path: Path) -> str:
    """The public key of the broker of this folder. In a new folder it gets one, so that others can trust it."""
    folder = Folder(path)
    if not folder.key.exists():
        folder.create()
    return own_key(folder).public


def fill(folder: Folder, network: Network, edits: list[SignedEdit], secret: str) -> None:
    """Put what a member needs into a folder that has its key already."""
    path = secret_path(folder)
    if secret:
        with plainly(path, "cannot be written"):
            path.touch(0o600)
            path.write_text(secret + "\n")
    with EditLog(folder.edits) as log:
        log.append(map(_encode, edits))
    # Last: a folder with this file in it is whole.
    folder.write_network(network)


def secret_path(folder: Folder) -> Path:
    return folder.path / "join.secret"


def read_secret(path: Path) -> Secret:
    with plainly(path, "cannot be read"):
        text = path.read_bytes()[:SECRET_BYTES_MAX].decode("utf-8", "replace").strip()
    if not text:
        raise SettingsError(f"{path}: holds no secret")
    return Secret(text)


def look(path: Path) -> tuple[Network, Effective, Broker]:
    """What a folder says about its broker, without taking it: whoever takes it mends it, and says what was damaged."""
    folder = Folder(path)
    network = folder.read_network()
    with plainly(folder.edits, "cannot be read"):
        data = folder.edits.read_bytes()
    edits = EditSet(network.network_id, verify)
    edits.add(_readable(scan(data, 0).records))
    config = effective(edits)
    broker = config.brokers.get(network.identity)
    if broker is None:
        raise SettingsError(f"{path}: its config does not know broker {network.identity!r} (any more)")
    return network, config, broker


def nonce() -> str:
    return secrets.token_hex(16)
