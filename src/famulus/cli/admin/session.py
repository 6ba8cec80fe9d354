"""What all commands for admins share: the options, the connection with the password, and how answers are shown.

`add_command` turns a function whose first parameter is an `AdminSession` into a command with these options.
"""

from __future__ import annotations

import getpass
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from famulus.admin.administration import Administration
from famulus.admin.connection import CONNECT_S, AdminConnection
from famulus.admin.secret import Secret
from famulus.cli.admin.passwords import ask_password, read_password
from famulus.cli.admin.words import moved_lines, printable
from famulus.cli.options import option, parameters_of, with_parameters
from famulus.errors import HeadsMoved, NoBroker, Refused, SettingsError

Wait = Annotated[
    float | None,
    typer.Option(min=0.0, metavar="SECONDS", help="Wait up to this long until every broker that is alive has it."),
]
Force = Annotated[bool, typer.Option("--force", help="Send it even though brokers would ignore it.")]


@dataclass
class AdminSession:
    """Its fields are the options of every command."""

    broker: str | None = option(
        "The broker's frontend. [default: that of the pass, or 127.0.0.1:7100]", envvar="FAMULUS_FRONTEND"
    )
    pass_file: Path | None = option(
        "A pass, to come from another machine. [default: FAMULUS_PASS]", "--pass", metavar="FILE"
    )
    user: str = option("The admin's name. [default: the login name]", default="", envvar="FAMULUS_ADMIN")
    password_file: Path | None = option(
        "Its first line is the password. [default: FAMULUS_ADMIN_PASSWORD, or a question]"
    )
    timeout: float = option("Seconds to wait for an answer.", default=30.0, min=0.1)
    as_json: bool = option("Print one JSON object, for programs.", "--json", default=False)

    #: Asked for when it is first needed.
    password: Secret | None = field(default=None, init=False)
    _connection: AdminConnection | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.user = self.user or _login_name()
        self.administration = Administration(self._ask)

    def _ask(self, command: str, arguments: dict[str, Any]) -> bytes:
        """Asks for the password when it is first needed: not if the command is wrong, or there is no broker."""
        if self._connection is None:
            connect_s = min(self.timeout, CONNECT_S)
            self._connection = AdminConnection(
                self.broker, pass_file=self.pass_file, connect_s=connect_s, answer_s=self.timeout
            )
        self._connection.connect()
        if self.password is None:
            self.password = self._find_password(self._connection.address)
        return self._connection.ask(self.user, self.password, command, arguments)

    def _find_password(self, address: str) -> Secret:
        if self.password_file is not None:
            return read_password(self.password_file)
        # An empty one means that somebody wants to be asked.
        if from_environment := os.environ.get("FAMULUS_ADMIN_PASSWORD"):
            return Secret(from_environment)
        remedy = "set FAMULUS_ADMIN_PASSWORD, or give --password-file"
        return ask_password(f"password of {self.user} at {address}: ", remedy)

    # -- answers ------------------------------------------------------------------------------------------------

    def show(self, facts: object, *lines: str) -> None:
        """The facts for programs, or the lines for people."""
        if self.as_json:
            typer.echo(to_json(facts))
        else:
            for line in "\n".join(lines).split("\n") if lines else ():
                typer.echo(printable(line))

    def note(self, sentence: str) -> None:
        """Something that a person should know, but a program need not read."""
        typer.echo(printable(f"famulus: {sentence}"), err=True)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


_OPTIONS = parameters_of(AdminSession)


def new_group(commands: Mapping[str, Callable[..., None]]) -> typer.Typer:
    app = typer.Typer()
    for name, function in commands.items():
        add_command(app, name, function)
    return app


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """`function` takes an AdminSession and its own parameters; the command takes these and the common options."""
    _, *own = parameters_of(function)

    @wraps(function)
    def command(**values: Any) -> None:
        with closing(AdminSession(**{each.name: values.pop(each.name) for each in _OPTIONS})) as session:
            try:
                function(session, **values)
            except Exception as error:
                _show_failure(session, error)
                raise

    app.command(name)(with_parameters(command, [*own, *_OPTIONS]))


def _show_failure(session: AdminSession, error: Exception) -> None:
    """Why a broker refused, for programs or as a table; `main` adds the sentence and the exit code."""
    if session.as_json and isinstance(error, Refused | NoBroker):
        facts: dict[str, object] = {"outcome": "REJECTED", "reason": str(error)}
        if isinstance(error, HeadsMoved):
            facts["moved"] = error.moved
        typer.echo(to_json(facts))
    elif isinstance(error, HeadsMoved):
        for line in moved_lines(error.moved):
            typer.echo(line, err=True)


def to_json(facts: object) -> str:
    """Indented, and safe for a terminal as well: control characters can only be in texts, and are escaped there."""
    text = msgspec.json.format(msgspec.json.encode(facts), indent=2).decode()
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def confirmed(question: str) -> bool:
    """Asks on standard error, so that it is not part of the output. No answer means no."""
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _login_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        raise SettingsError("who are you? give --user, or set FAMULUS_ADMIN") from None
