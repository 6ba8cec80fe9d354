"""The desk at which a command of an admin works: the options that all of them have, the password, and the answers.

A function whose first parameter is a `AdminSession` becomes a command by `add_command`, which gives it these options.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Annotated, Any

import typer

from famulus.cli.admin.passwords import ask_password, read_password
from famulus.cli.options import parameters_of, with_parameters
from famulus.errors import SettingsError

if TYPE_CHECKING:
    from famulus.admin.administration import Administration
    from famulus.admin.connection import AdminConnection
    from famulus.admin.secret import Secret

Wait = Annotated[
    float | None,
    typer.Option(min=0.0, metavar="SECONDS", help="Wait up to this long until every broker that is alive has it."),
]
Force = Annotated[bool, typer.Option("--force", help="Send it even though brokers would ignore it.")]


@dataclass
class AdminSession:
    """Its fields are the options of every command."""

    broker: Annotated[
        str | None, typer.Option(envvar="FAMULUS_FRONTEND", help="The broker's frontend. [default: 127.0.0.1:7100]")
    ] = None
    user: Annotated[str, typer.Option(envvar="FAMULUS_ADMIN", help="The admin's name. [default: the login name]")] = ""
    password_file: Annotated[
        Path | None,
        typer.Option(help="Its first line is the password. [default: FAMULUS_ADMIN_PASSWORD, or a question]"),
    ] = None
    timeout: Annotated[float, typer.Option(min=0.1, help="Seconds to wait for an answer.")] = 30.0
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object, for programs.")] = False

    _connection: AdminConnection | None = field(default=None, init=False)
    _password: Secret | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self.user = self.user or _login_name()

    @property
    def administration(self) -> Administration:
        from famulus.admin.administration import Administration

        return Administration(self._ask)

    def _ask(self, command: str, arguments: dict[str, Any]) -> bytes:
        """Asks for the password when it is first needed: not for a mistake in the command, or without a broker."""
        from famulus.admin.connection import CONNECT_S, AdminConnection

        if self._connection is None:
            self._connection = AdminConnection(
                self.broker, connect_s=min(self.timeout, CONNECT_S), answer_s=self.timeout
            )
        self._connection.connect()
        if self._password is None:
            self._password = self._find_password(self._connection.address)
        return self._connection.ask(self.user, self._password, command, arguments)

    def _find_password(self, address: str) -> Secret:
        from famulus.admin.secret import Secret

        if self.password_file is not None:
            return read_password(self.password_file)
        # An empty one means that somebody wants to be asked.
        if from_environment := os.environ.get("FAMULUS_ADMIN_PASSWORD"):
            return Secret(from_environment)
        remedy = "set FAMULUS_ADMIN_PASSWORD, or give --password-file"
        return ask_password(f"password of {self.user} at {address}: ", remedy)

    def change_password(self, password: Secret) -> None:
        """From now on the admin has this one."""
        self._password = password

    # -- answers ------------------------------------------------------------------------------------------------

    def show(self, facts: object, *lines: str) -> None:
        """The facts for programs, or the lines for people."""
        if self.as_json:
            typer.echo(to_json(facts))
        else:
            from famulus.cli.admin.words import printable

            for line in "\n".join(lines).split("\n") if lines else ():
                typer.echo(printable(line))

    def note(self, sentence: str) -> None:
        """What a person should know, and a program need not read."""
        from famulus.cli.admin.words import printable

        typer.echo(printable(f"famulus: {sentence}"), err=True)

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()

    def __enter__(self) -> AdminSession:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


_OPTIONS = parameters_of(AdminSession)


def new_group(what: str) -> typer.Typer:
    """A group of commands that explains itself when none of them is named."""
    app = typer.Typer(help=what, invoke_without_command=True)

    @app.callback()
    def explain(context: typer.Context) -> None:
        if context.invoked_subcommand is None:
            typer.echo(context.get_help())

    return app


def add_command(app: typer.Typer, name: str, function: Callable[..., None]) -> None:
    """`function` takes a AdminSession and its own parameters; the command takes these and the common options."""
    _, *own = parameters_of(function)

    @wraps(function)
    def command(**values: Any) -> None:
        with AdminSession(**{each.name: values.pop(each.name) for each in _OPTIONS}) as desk:
            try:
                function(desk, **values)
            except Exception as error:
                _show_failure(desk, error)
                raise

    app.command(name)(with_parameters(command, [*own, *_OPTIONS]))


def _show_failure(desk: AdminSession, error: Exception) -> None:
    """What a broker had against it, for programs or as a table; `main` adds the sentence and the exit code."""
    from famulus.cli.admin.words import moved_lines
    from famulus.errors import HeadsMoved, NoBroker, Refused

    if desk.as_json and isinstance(error, Refused | NoBroker):
        facts: dict[str, object] = {"outcome": "REJECTED", "reason": str(error)}
        if isinstance(error, HeadsMoved):
            facts["moved"] = error.moved
        typer.echo(to_json(facts))
    elif isinstance(error, HeadsMoved):
        for line in moved_lines(error.moved):
            typer.echo(line, err=True)


def to_json(facts: object) -> str:
    """Indented, and harmless to a terminal as well: what it would obey is in texts, and is escaped there."""
    import json

    import msgspec

    text = msgspec.json.format(msgspec.json.encode(facts), indent=2).decode()
    return "".join(char if char.isprintable() or char == "\n" else json.dumps(char)[1:-1] for char in text)


def confirmed(question: str) -> bool:
    """On standard error, so that it is not part of the answer. Silence is no consent."""
    typer.echo(f"{question} [y/N] ", err=True, nl=False)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _login_name() -> str:
    from getpass import getuser

    try:
        return getuser()
    except (KeyError, OSError):
        raise SettingsError("who are you? give --user, or set FAMULUS_ADMIN") from None
