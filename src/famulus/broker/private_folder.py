"""The folder with the sockets between the processes of one broker, and the removal of those whose brokers were killed.

Each folder has a lock that is held as long as its supervisor lives; the system releases it, however the supervisor
ends. So whoever gets the lock of a folder knows that nobody needs the folder any more.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path
from time import time

from famulus.broker.folder import opened

PREFIX = "famulus-broker-"
LOCK = "lock"
#: The lock gets its final name once it is held: if it has that name and is not locked, its broker is dead.
NEW_LOCK = "lock.new"
#: A folder without a lock is just being made, unless it is older than this.
MAKING_S = 60.0
#: Never follow a link, and never wait for the other end of a pipe.
UNFOLLOWED = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
#: The path of a unix socket has at most 107 characters, including its name in the folder.
CHARS_MAX = 90


class PrivateFolder:
    """Only we may look into it."""

    def __init__(self) -> None:
        path = tempfile.mkdtemp(prefix=PREFIX)
        if len(path) > CHARS_MAX:
            os.rmdir(path)
            path = tempfile.mkdtemp(prefix=PREFIX, dir="/tmp")
        self.path = path
        self._lock = os.open(Path(path, NEW_LOCK), os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        os.rename(Path(path, NEW_LOCK), Path(path, LOCK))

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)


def remove_dead() -> list[str]:
    """Remove the folders of our dead brokers, and return which ones. Nothing that is not ours is touched."""
    removed = []
    for parent in {tempfile.gettempdir(), "/tmp"}:
        # Others may be doing the same at this moment; whatever goes wrong is left for the next one.
        with suppress(OSError):
            names = [name for name in os.listdir(parent) if name.startswith(PREFIX)]
            removed += [path for name in names if _removed(path := os.path.join(parent, name))]
    return removed


def _removed(path: str) -> bool:
    with suppress(OSError), opened(path, UNFOLLOWED | os.O_DIRECTORY) as folder:
        about = os.fstat(folder)
        if about.st_uid != os.geteuid():
            return False
        if LOCK in os.listdir(folder):
            with opened(LOCK, UNFOLLOWED, folder) as lock:
                if not stat.S_ISREG(os.fstat(lock).st_mode):
                    return False
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                _empty(folder)
                os.rmdir(path)
        elif time() - about.st_mtime > MAKING_S:
            # Its broker was killed while making it.
            with suppress(FileNotFoundError):
                os.unlink(NEW_LOCK, dir_fd=folder)
            os.rmdir(path)
        else:
            return False
        return True
    return False


def _empty(folder: int) -> None:
    """In the folder that was checked, wherever its path leads by now; the lock goes last, since others rely on it."""
    for name in sorted(os.listdir(folder), key=lambda name: name == LOCK):
        os.unlink(name, dir_fd=folder)
