"""What `famulus doctor` finds about keys: files that others may read, what expires, and a clock that is wrong."""

from __future__ import annotations

import ctypes
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from famulus.errors import SettingsError

if TYPE_CHECKING:
    from famulus.core.config.effective import Effective

DAY_MS: Final = 24 * 3600 * 1000
#: As the pipeline's finding says it.
SOON_DAYS: Final = 14
#: What adjtimex returns for a clock that nobody keeps right, and the size of what it fills in.
TIME_ERROR: Final = 5
TIMEX_BYTES: Final = 512

#: A problem, and its remedy.
Found = tuple[str, str]


def of_pass(path: Path) -> Iterator[Found]:
    from famulus.net.passes import read_pass

    try:
        read_pass(path)
    except SettingsError as error:
        problem, _, remedy = str(error).partition(" run: ")
        problem = problem.rstrip(";")
        yield problem, remedy or "ask an admin for another one: famulus pass rotate"


def of_folder(path: Path) -> Iterator[Found]:
    """The folder of a broker of a network."""
    from famulus.broker.membership import look

    yield from _open_files(path)
    try:
        network, config, broker = look(path)
    except SettingsError as error:
        yield str(error), "see whether this is the folder of a broker"
        return
    if config.family(broker.family).keys == "none":
        yield (
            f"broker {network.identity} wants no keys: whoever reaches its ports may use them",
            f"famulus config set family/{broker.family} keys=remote, and passes for those from other machines",
        )
    yield from _plain_on_purpose(path, network.identity)
    yield from _certificate(path)
    yield from _expiring(config, int(time.time() * 1000))
    if _is_unsynchronised():
        yield "nobody keeps the clock of this machine right, and keys expire by it", "run chrony or systemd-timesyncd"


def _plain_on_purpose(path: Path, identity: str) -> Iterator[Found]:
    """As the settings in the folder say, or as it was last started: a flag, or other settings, may have said so."""
    from famulus.broker.folder import Folder

    folder = Folder(path)
    try:
        is_set = tomllib.loads(folder.settings.read_text("utf-8")).get("plain_on_purpose") is True
    except (OSError, ValueError):
        is_set = False
    remedy = "unless something else protects the way"
    if is_set:
        remedy = f"take plain_on_purpose out of {folder.settings}, {remedy}"
    elif folder.plain.exists():
        remedy = f"start it without --plain-on-purpose (plain_on_purpose in its settings), {remedy}"
    else:
        return
    yield f"broker {identity} is plain on purpose: whoever comes from another machine needs no key", remedy


def _certificate(path: Path) -> Iterator[Found]:
    from famulus.broker.certificate import days_left
    from famulus.broker.folder import Folder

    folder = Folder(path)
    left = days_left(folder.certificate) if folder.certificate.exists() else None
    if left is not None and left < SOON_DAYS:
        when = f"ends in {left} days" if left >= 0 else "has ended"
        yield f"the certificate of the HTTP port {when}", f"famulus broker --folder {path} --new-certificate"


def _open_files(path: Path) -> Iterator[Found]:
    try:
        found = [path, *(each for each in sorted(path.iterdir()) if each.is_file())]
        modes = {each: each.stat().st_mode & 0o777 for each in found}
    except OSError:
        return  # whoever looks into it next says so
    # What is in a folder that is closed cannot be reached.
    if modes[path] & 0o077:
        for each, mode in modes.items():
            if mode & 0o077:
                allowed = "700" if each == path else "600"
                yield f"{each}: others may read it (mode {mode:03o})", f"chmod {allowed} {each}"


def _expiring(config: Effective, now_ms: int) -> Iterator[Found]:
    for name, principal in sorted(config.principals.items()):
        left_ms = principal.expires_ms - now_ms
        if principal.expires_ms and left_ms < SOON_DAYS * DAY_MS:
            when = f"expires in {left_ms // DAY_MS} days" if left_ms > 0 else "has expired"
            yield f"the pass of {name} {when}", f"famulus pass rights {name} --days N, or famulus pass revoke {name}"


def _is_unsynchronised() -> bool:
    """As the kernel knows it; no where it does not tell."""
    try:
        return bool(ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES)) == TIME_ERROR)
    except (AttributeError, OSError):
        return False
