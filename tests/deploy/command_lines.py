"""Command lines of `famulus`, parsed by `famulus` itself and not run: an option that was renamed is an error."""

from __future__ import annotations

from typing import Any

import typer

from famulus.cli.main import new_app

FAMULUS: Any = typer.main.get_command(new_app())


def parse(words: list[str]) -> tuple[str, dict[str, Any]]:
    """The command's name and its parameters; `typer.TyperException` if the words make no sense."""
    if words[0].rpartition("/")[2] != "famulus":
        raise ValueError(f"{words[0]!r} is not famulus")
    command, context = FAMULUS, None
    name, rest = "famulus", words[1:]
    while True:
        context = command.make_context(name, list(rest), parent=context)
        left = [*getattr(context, "_protected_args", ()), *context.args]
        if not hasattr(command, "commands") or (command.invoke_without_command and not left):
            return context.command_path, context.params
        name, command, rest = command.resolve_command(context, left)
