"""A broker's membership of a network, as stored in its folder: its key, the edits it holds, the secret for joining."""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from famulus.broker.edit_log import EditLog, LogContents, read
from famulus.broker.folder import Folder, Network, plainly, write_file
from famulus.broker.keys import BrokerKey, Secret, is_public, verify
from famulus.core.config import schema
from famulus.core.config.edit import SignedEdit
from famulus.core.config.edit_set import EditSet
from famulus.core.config.effective import Effective, effective
from famulus.core.config.schema import Broker
from famulus.errors import NotAnEditLog, SettingsError

SECRET_BYTES_MAX = 4096
MISSING = "there was no such file"
#: Enough for more than a thousand brokers.
BROKERS_BYTES_MAX = 4 * 1024 * 1024

#: Beside the fields of a broker's config.
_WANTED_KEY = "wanted_key"

_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(SignedEdit).decode


class Membership:
    """While open, it belongs to one process: the log is locked."""

    def __init__(self, path: Path) -> None:
        self.folder = Folder(path)
        self.network: Network = self.folder.read_network()
        self.key = BrokerKey.load(self.folder.key)
        self._log, garbage = _open_log(self.folder)
        reading = self._log.read()
        self.edits, damage = _edits_in(reading, self.network)
        #: What is wrong with the log, in words; what was dropped is pulled again from the peers.
        self.damage = garbage + damage
        #: Where brokers were when the config last changed, if the log is no longer complete; otherwise None.
        self.known = _recall(self.folder) if self.damage else None
        #: The keys of those that wanted some, in the same case.
        self.known_keys = _recall_keys(self.folder) if self.damage else {}
        self._remembered = b""
        #: Where admins were heard before, and which; empty if that can no longer be read.
        self.known_admins = _recall_admins(self.folder)

    @property
    def identity(self) -> str:
        return self.network.identity

    def write(self, edits: list[SignedEdit] | tuple[SignedEdit, ...]) -> None:
        """When this returns, they are on the disk. If it fails: a SettingsError, and the log is as it was."""
        self._log.append(map(_encode, edits))

    def remember(self, brokers: Mapping[str, Broker], keys: Mapping[str, bytes]) -> None:
        """Save where they are, beside the log: if that is lost, this is how to find others that have it.

        `keys`: of those that want some.
        """
        said = {
            name: msgspec.to_builtins(broker) | ({_WANTED_KEY: keys[name].hex()} if name in keys else {})
            for name, broker in brokers.items()
        }
        data = msgspec.json.format(msgspec.json.encode(said, order="deterministic")) + b"\n"
        if data != self._remembered:
            write_file(self.folder.brokers, data)
            self._remembered = data

    def remember_admins(self, places: list[tuple[str, str]]) -> None:
        if places != self.known_admins:
            write_file(self.folder.admins, msgspec.json.encode(places) + b"\n")
            self.known_admins = places

    def secret(self) -> Secret:
        """Empty for a broker that joined by its key, and was never told it."""
        path = self.folder.secret
        return read_secret(path) if path.exists() else Secret("")

    def close(self) -> None:
        self._log.close()


def _open_log(folder: Folder) -> tuple[EditLog, list[str]]:
    """The log, and what was wrong with it if nothing was left of it: then it is put aside, and a new one started."""
    missing = [] if folder.edits.exists() else [MISSING]
    try:
        return EditLog(folder.edits), missing
    except NotAnEditLog:
        with plainly(folder.edits, "cannot be put aside"):
            folder.edits.rename(folder.damaged_edits)
        return EditLog(folder.edits), [f"nothing in it is a record; it is kept as {folder.damaged_edits.name}"]


def _edits_in(reading: LogContents, network: Network) -> tuple[EditSet, list[str]]:
    """The edits that a log holds, and what is wrong with it, in words."""
    edits = EditSet(network.network_id, verify)
    damage = [str(damage) for damage in reading.damage]
    added = edits.add(_readable(reading.records))
    damage += added.refused
    if added.waiting:
        damage.append(f"{len(added.waiting)} records build upon what is missing")
    if not edits:
        damage.append("no edit is left that counts by itself")
    return edits, damage


def _recalled_file(folder: Folder) -> dict[str, dict[str, Any]]:
    """Empty if it cannot be read."""
    try:
        with folder.brokers.open("rb") as file:
            return msgspec.json.decode(file.read(BROKERS_BYTES_MAX), type=dict[str, dict[str, Any]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return {}


def _recall_keys(folder: Folder) -> dict[str, bytes]:
    keys = {name: said.get(_WANTED_KEY) for name, said in _recalled_file(folder).items()}
    return {name: bytes.fromhex(key) for name, key in keys.items() if isinstance(key, str) and is_public(key)}


def _recall(folder: Folder) -> dict[str, Broker]:
    """Where brokers were when the config last changed; empty if that cannot be read."""
    told = _recalled_file(folder)
    views = {identity: schema.read(schema.Subject("broker", identity), value).value for identity, value in told.items()}
    return {identity: value for identity, value in views.items() if isinstance(value, Broker)}


def _recall_admins(folder: Folder) -> list[tuple[str, str]]:
    try:
        return msgspec.json.decode(folder.admins.read_bytes(), type=list[tuple[str, str]])
    except (OSError, msgspec.DecodeError, UnicodeDecodeError):
        return []


def _readable(records: list[bytes]) -> list[SignedEdit]:
    edits = []
    for record in records:
        try:
            edits.append(_decode(record))
        except msgspec.DecodeError:
            continue  # a whole record that is not an edit: no broker wrote it
    return edits


@contextmanager
def new(folder: Folder) -> Iterator[None]:
    """Turn a folder into a member's, or leave it as empty as before, so that nothing is in the way of the next try."""
    prepared = folder.is_prepared
    if not prepared:
        folder.create()
    try:
        yield
    except BaseException:
        for part in (folder.secret, folder.edits, folder.network, folder.certificate, folder.certificate_key):
            part.unlink(missing_ok=True)
        if not prepared:
            folder.key.unlink(missing_ok=True)
        raise


def own_key(folder: Folder) -> BrokerKey:
    """The key that was prepared for this folder's broker, or else a new one."""
    return BrokerKey.load(folder.key) if folder.key.exists() else BrokerKey.create(folder.key)


def prepare(path: Path) -> str:
    """The public key of this folder's broker. A new folder gets a key, so that others can trust it."""
    folder = Folder(path)
    if not folder.key.exists():
        folder.create()
    return own_key(folder).public


def fill(folder: Folder, network: Network, edits: list[SignedEdit], secret: str) -> None:
    """Put what a member needs into a folder that has its key already."""
    if secret:
        write_file(folder.secret, secret.encode() + b"\n")
    with EditLog(folder.edits) as log:
        log.append(map(_encode, edits))
    # Last: a folder with this file in it is complete.
    folder.write_network(network)


def read_secret(path: Path) -> Secret:
    with plainly(path, "cannot be read"):
        text = path.read_bytes()[:SECRET_BYTES_MAX].decode("utf-8", "replace").strip()
    if not text:
        raise SettingsError(f"{path}: holds no secret")
    return Secret(text)


def look(path: Path) -> tuple[Network, Effective, Broker]:
    """What a folder says about its broker, without opening it: whoever opens it mends it, and says what was damaged.

    If the log was lost, the broker is as it was when the config last changed.
    """
    folder = Folder(path)
    network, config, damage = _look(folder)
    broker = config.brokers.get(network.identity)
    if broker is None:
        if not damage:
            raise SettingsError(f"{path}: its config does not know broker {network.identity!r} (any more)")
        broker = _recalled(folder, network.identity, damage)
    return network, config, broker


def is_lost(path: Path) -> bool:
    """Whether this is the folder of a member whose log no longer says who it is."""
    folder = Folder(path)
    if not folder.network.exists():
        return False
    network, config, damage = _look(folder)
    return bool(damage) and network.identity not in config.brokers


def _look(folder: Folder) -> tuple[Network, Effective, list[str]]:
    network = folder.read_network()
    with plainly(folder.edits, "cannot be read"):
        try:
            data, missing = folder.edits.read_bytes(), []
        except FileNotFoundError:
            data, missing = b"", [MISSING]
    edits, damage = _edits_in(read(folder.edits, data), network)
    return network, effective(edits), missing + damage


def _recalled(folder: Folder, identity: str, damage: list[str]) -> Broker:
    """The broker as it was; if it cannot be recovered, a SettingsError that says what is lost, and what to do."""
    known = _recall(folder)
    if identity in known and len(known) > 1:
        return known[identity]
    lost = f"{folder.edits}: the config of the network is lost ({damage[0]})"
    again = "put back a copy of that file"
    if identity in known:
        raise SettingsError(
            f"{lost}, and this is the only broker of its network, so nobody else has it; {again}. Without one, its "
            "services, admins and settings are gone: make a new network in a new folder with famulus init"
        )
    raise SettingsError(
        f"{lost}, and {folder.brokers.name} does not tell who else has it; {again}, or name any broker of the network "
        f"by its peer_port: famulus broker --folder {folder.path} --join HOST:PORT"
    )


def nonce() -> str:
    return secrets.token_hex(16)
