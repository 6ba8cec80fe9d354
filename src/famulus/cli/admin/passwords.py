"""Where passwords come from: a file or a terminal, never a command line. They leave here as `Secret`s."""

from __future__ import annotations

import getpass
import os
import stat
import warnings
from pathlib import Path
from typing import IO

import typer

from famulus.admin.secret import Secret
from famulus.errors import SettingsError

#: Anything longer is not a password, but the wrong file.
PASSWORD_BYTES_MAX = 4096


def read_password(path: Path) -> Secret:
    """The first line of a file."""
    try:
        with path.open("rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            password = _first_line(file)
    except OSError as error:
        raise SettingsError(f"{path}: {error.strerror}") from None
    if stat.S_ISREG(mode) and mode & 0o077:
        typer.echo(f"famulus: {path} is open to other users; chmod 600 it", err=True)
    if not password:
        raise SettingsError(f"{path}: its first line is not a password")
    return password


def _first_line(file: IO[bytes]) -> Secret:
    """Empty if it cannot be a password. It raises nothing: a traceback could show what it has read."""
    data = file.read(PASSWORD_BYTES_MAX + 1)
    if len(data) > PASSWORD_BYTES_MAX:
        return Secret("")
    return Secret(data.decode(errors="replace").partition("\n")[0].rstrip("\r"))


def ask_password(question: str, remedy: str) -> Secret:
    """From the terminal, without an echo; not from a pipe, whose other end might show it."""
    try:
        with warnings.catch_warnings():
            # Otherwise it would go on with an echo.
            warnings.simplefilter("error", getpass.GetPassWarning)
            password = Secret(getpass.getpass(question))
    except (getpass.GetPassWarning, EOFError):
        raise SettingsError(f"there is no terminal to ask for the password at; {remedy}") from None
    if not password:
        raise SettingsError(f"a password is not empty; {remedy}")
    return password
