"""The data folder of a broker: where its parts are, that nobody else may look into it, and that one broker uses it.

Knows what the parts are called; of their contents, only network.json. Also how to write a file so that it survives a
crash, for those who write the other parts.
"""

from __future__ import annotations

import errno
import fcntl
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from time import monotonic_ns, sleep
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from famulus.core.clock import NS_PER_S
from famulus.errors import SettingsError
from famulus.wire import limits

LOCK = "broker.lock"
NETWORK = "network.json"

#: A process of a killed broker may outlive it for a moment, and the next broker starts at once.
PATIENCE_NS = 2 * NS_PER_S
ASK_AGAIN_S = 0.02

_Hex32 = Annotated[str, Meta(pattern=r"^[0-9a-f]{64}\Z")]


class Network(Struct, frozen=True):
    """Which network a broker belongs to, and as whom."""

    network_id: _Hex32
    identity: Annotated[str, Meta(min_length=1, max_length=limits.NAME_CHARS_MAX)]
    root_public: _Hex32


class Folder:
    def __init__(self, path: Path) -> None:
        self.path = path
        self.network = path / NETWORK
        self.key = path / "broker.key"
        self.settings = path / "broker.toml"
        self.edits = path / "edits.log"
        #: Where a log that holds nothing any more is put, for anybody who wants to look at it.
        self.damaged_edits = path / "edits.log.damaged"
        self.secret = path / "join.secret"
        #: Where the brokers of the network are.
        self.brokers = path / "brokers.json"
        #: Where admins were when they gave their right passwords.
        self.admins = path / "admins.json"
        self.boot = path / "last.boot"
        #: There, and empty, if the broker was last started plain on purpose.
        self.plain = path / "plain-on-purpose"
        #: For the HTTP port, both in PEM.
        self.certificate = path / "tls.crt"
        self.certificate_key = path / "tls.key"

    @property
    def is_empty(self) -> bool:
        """Whether a broker can be made here: the folder does not exist, or contains nothing but a lock."""
        with plainly(self.path, "cannot be read"):
            try:
                return set(os.listdir(self.path)) <= {LOCK}
            except FileNotFoundError:
                return True

    @property
    def is_prepared(self) -> bool:
        """Whether there is only a key here, which others may already trust."""
        return self.key.exists() and set(os.listdir(self.path)) <= {LOCK, self.key.name}

    def create(self) -> None:
        """Make the folder, or take over an empty one."""
        if not self.is_empty:
            raise SettingsError(f"{self.path}: is not empty; a new broker needs a folder of its own")
        with plainly(self.path, "cannot be created"):
            self.path.mkdir(0o700, parents=True, exist_ok=True)
            self.path.chmod(0o700)
            # From now on it is recognisable as ours.
            (self.path / LOCK).touch(0o600)
            sync_folder(self.path)
            sync_folder(self.path.parent)

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Use the folder, as the only one to do so. The lock ends with the process, however that ends."""
        self._check()
        with plainly(self.path, "cannot be written to"):
            fd = os.open(self.path / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            lock_file(fd, self.path)
            yield
        finally:
            os.close(fd)

    def _check(self) -> None:
        with plainly(self.path, "cannot be read"):
            names = os.listdir(self.path)
            mode = self.path.stat().st_mode
        # A backup may have left out the lock.
        if LOCK not in names and NETWORK not in names:
            raise SettingsError(f"{self.path}: is not the data folder of a broker")
        if mode & 0o077:
            remedy = f"chmod 700 {shlex.quote(str(self.path))}"
            raise SettingsError(f"{self.path}: others may look into it (mode {mode & 0o777:03o}); run: {remedy}")

    def read_network(self) -> Network:
        with plainly(self.network, "cannot be read"):
            data = self.network.read_bytes()
        try:
            return msgspec.json.decode(data, type=Network)
        except msgspec.DecodeError as error:
            raise SettingsError(f"{self.network}: is damaged ({error})") from None

    def write_network(self, network: Network) -> None:
        write_file(self.network, msgspec.json.format(msgspec.json.encode(network)) + b"\n")

    def read_boot(self) -> int:
        """The number of the last start; 0 if there was none, or if it can no longer be read."""
        try:
            return int(self.boot.read_bytes()[:20])
        except (OSError, ValueError):
            return 0

    def write_boot(self, boot: int) -> None:
        write_file(self.boot, b"%d\n" % boot)

    def note_plain(self, on_purpose: bool) -> None:
        """For whoever asks later how it was started: a flag leaves no trace in the settings."""
        with plainly(self.plain, "cannot be written"):
            if on_purpose:
                self.plain.touch(0o600)
            else:
                self.plain.unlink(missing_ok=True)


@contextmanager
def plainly(path: Path, failure: str) -> Iterator[None]:
    """Turn an error of the system into one sentence that names the file."""
    try:
        yield
    except OSError as error:
        raise SettingsError(f"{path}: {failure} ({error.strerror})") from error


@contextmanager
def opened(path: Path | str, flags: int, folder: int | None = None) -> Iterator[int]:
    fd = os.open(path, flags, dir_fd=folder)
    try:
        yield fd
    finally:
        os.close(fd)


def lock_file(fd: int, path: Path) -> None:
    give_up_ns = monotonic_ns() + PATIENCE_NS
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if monotonic_ns() >= give_up_ns:
                raise SettingsError(f"{path}: another process uses it") from None
        sleep(ASK_AGAIN_S)


def write_all(fd: int, data: bytes, offset: int = 0) -> None:
    """A disk that fills up first takes only a part, and reports an error only for the rest."""
    rest = memoryview(data)
    while rest:
        written = os.pwrite(fd, rest, offset)
        rest = rest[written:]
        offset += written


def write_file(path: Path, data: bytes) -> None:
    """Replace a file with these bytes, all of them or none; they are on the disk when this returns."""
    with plainly(path, "cannot be written"):
        os.close(replace_file(path, data))
        sync_folder(path.parent)


def replace_file(path: Path, data: bytes) -> int:
    """Replace a file with these bytes, all of them or none; returns the descriptor of the new file, which is locked.

    The caller must sync the folder too, but only after noting that the file is now another one.
    """
    beside = path.with_name(path.name + ".new")
    fd = os.open(beside, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600)
    try:
        # Before it gets its name: then whoever opens it finds it locked.
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        write_all(fd, data)
        os.fsync(fd)
        beside.rename(path)
    except BaseException:
        os.close(fd)
        with suppress(OSError):
            beside.unlink()
        raise
    return fd


def sync_folder(path: Path) -> None:
    """A new name in a folder survives a crash only if the folder was synced as well."""
    with opened(path, os.O_RDONLY | os.O_DIRECTORY) as fd:
        try:
            os.fsync(fd)
        except OSError as error:
            # Some file systems cannot do this, and need not.
            if error.errno != errno.EINVAL:
                raise
