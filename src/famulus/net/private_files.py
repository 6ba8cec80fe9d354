"""Files that nobody but their owner may read, since there is a key in them: passes and invitations.

The owner has to be us, or root: whoever else has written them knows the key, and whom they make us trust.
"""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from famulus.errors import SettingsError

BYTES_MAX = 1024 * 1024


def read_private(path: Path, what: str) -> bytes:
    """`what` it is, for whoever let others read it: then it is refused."""
    try:
        with path.open("rb") as file:
            found = os.fstat(file.fileno())
            data = file.read(BYTES_MAX)
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read ({error.strerror})") from None
    mode, owner = found.st_mode, found.st_uid
    if owner not in (os.geteuid(), 0):
        remedy = f"chown {os.geteuid()} {shlex.quote(str(path))}"
        raise SettingsError(
            f"{path}: this {what} belongs to somebody else (user {owner}); if you trust it, run: {remedy}"
        )
    if mode & 0o077:
        remedy = f"chmod 600 {shlex.quote(str(path))}"
        raise SettingsError(f"{path}: others may read this {what} (mode {mode & 0o777:03o}); run: {remedy}")
    return data


def write_private(path: Path, data: bytes) -> None:
    """A new file; one that is there stays as it is, since its key may be the only copy."""
    try:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        raise SettingsError(f"{path}: is there already; name another file, or remove it first") from None
    except OSError as error:
        raise SettingsError(f"{path}: cannot be written ({error.strerror})") from None
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        path.unlink(missing_ok=True)
        raise SettingsError(f"{path}: cannot be written ({error.strerror})") from None
