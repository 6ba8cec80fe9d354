"""The `famulus` command: gathers the commands and decides how they end. Knows nothing about what they do.

To add a command: write a file in the folder of its group with a function that has Typer annotations and a docstring
(its help), and name it in COMMANDS. Only the command that was asked for is imported and set up: doing that for all of
them takes longer than most commands do. Still, keep the imports at the top of that file light, and put those of zmq
and other heavy modules into the function: the help has to import all commands, although not the groups.

Exit codes: 0 done; 1 failed; 2 wrong usage; 130 interrupted; others as `exit_code` of the error says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from importlib import import_module
from typing import Annotated, Any

import typer

from famulus import __version__
from famulus._plain import check_choice
from famulus.cli.packages import missing_after, missing_for
from famulus.errors import FamulusError

#: In the order of the help: each with its module and its function there.
COMMANDS = {
    "broker": "famulus.cli.broker.broker:broker",
    "brokers": "famulus.cli.status.status:brokers",
    "call": "famulus.cli.calling.call:call",
    "chaos": "famulus.lab.commands.chaos:chaos",
    "demo": "famulus.lab.commands.demo:demo",
    "doctor": "famulus.cli.doctor:doctor",
    "explain": "famulus.cli.explain.explain:explain",
    "init": "famulus.cli.broker.init:init",
    "services": "famulus.cli.status.status:services",
    "simulate": "famulus.lab.commands.simulate:simulate",
    "status": "famulus.cli.status.status:status",
    "tasks": "famulus.cli.journal.tasks:tasks",
    "test": "famulus.lab.commands.test:run_tests",
    "top": "famulus.cli.status.top:top",
    "trace": "famulus.cli.journal.trace:trace",
    "worker": "famulus.cli.calling.worker:worker",
    "workers": "famulus.cli.status.status:workers",
}
#: Commands that have commands of their own.
GROUPS = {
    "admins": "famulus.cli.admin.admins:app",
    "bench": "famulus.lab.commands.bench:app",
    "broker-admin": "famulus.cli.admin.broker_admin:app",
    "config": "famulus.cli.config.app:app",
    "errors": "famulus.cli.status.errors:app",
    "findings": "famulus.cli.pipeline.findings:app",
    "pipeline": "famulus.cli.pipeline.app:app",
    "journal": "famulus.cli.journal.app:app",
}
#: What the help says about them, without importing any.
ABOUT_GROUPS = {
    "admins": "List, add and remove admins, and change their passwords.",
    "bench": "Measure this machine: each command starts its own broker, workers and clients.",
    "broker-admin": "Enable, disable, drain or forget a broker of the network; trust the key of a new one.",
    "config": "Look at the config that all brokers share, and change it. Every change stays in its history.",
    "errors": "See which workers a broker ignores, put one on the list, and forgive them.",
    "findings": "What the pipeline found that an admin should do.",
    "pipeline": "Make tables of what the brokers wrote into their journal, and ask them.",
    "journal": "Look at a broker's journal and keep it in order; no Spark is needed.",
}
#: Modules of the laboratory that add a command to a group when they are imported.
ADDED = {"pipeline": "famulus.lab.commands.synth"}
HELP = ["-h", "--help"]
#: Commands that pass unknown options, and -h, on to another program.
SETTINGS = {"test": {"ignore_unknown_options": True, "help_option_names": ["--help"]}}


def new_app(wanted: Collection[str] = (*COMMANDS, *GROUPS), *, listed: bool = False) -> typer.Typer:
    """With these commands, or with all. `listed`: only to list what there is, for which groups may be empty."""
    app = typer.Typer(
        name="famulus",
        help="A network of brokers that carries tasks from clients to workers by service name.",
        add_completion=False,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": HELP},
    )
    app.callback(invoke_without_command=True)(_famulus)
    for name, where in COMMANDS.items():
        if name in wanted:
            app.command(name, context_settings=SETTINGS.get(name))(_load(where))
    for name, where in GROUPS.items():
        if name in wanted:
            if name in ADDED and not listed:
                import_module(ADDED[name])
            app.add_typer(typer.Typer() if listed else _load(where), name=name, help=ABOUT_GROUPS[name])
    return app


def app_for(words: list[str]) -> typer.Typer:
    """What is enough for this command line: one command, or all of them to list what there is."""
    asked = words[0] if words else ""
    return new_app([asked]) if asked in COMMANDS or asked in GROUPS else new_app(listed=True)


def _load(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"famulus {__version__}")
        raise typer.Exit


def _famulus(
    context: typer.Context,
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run() -> None:
    """The entry point: whatever happens, a person gets one clear line and a script an exit code."""
    words = sys.argv[1:]
    command = words[0] if words else ""
    try:
        check_choice()
        if set(words).isdisjoint(HELP) and (said := missing_for(command)):
            sys.exit(_complain(said, 1))
        code = app_for(words)(prog_name="famulus", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        code = _complain(error.format_message(), error.exit_code)
    except FamulusError as error:
        code = _complain(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        said = missing_after(error, command)
        if not said:
            raise
        code = _complain(said, 1)
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Without this Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 0
    except (KeyboardInterrupt, typer.Abort):
        code = 130
    sys.exit(code if isinstance(code, int) else 0)


def _complain(sentence: str, code: int) -> int:
    typer.echo("famulus: " + " ".join(sentence.split()), err=True)
    return code
