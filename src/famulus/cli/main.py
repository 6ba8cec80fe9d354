"""The `famulus` command: gathers the commands and decides how they end. Knows nothing about what they do.

To add a command: write a file in the folder of its group with a function that has Typer annotations and a docstring
(its help), and name it in COMMANDS, with one line in PANELS. Only the command that was asked for is imported and set
up: doing that for all of them takes longer than most commands do.

Exit codes are those of `famulus.exit_codes`: each error knows its own.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from typing import Annotated, Any

import typer

from famulus import __version__
from famulus._plain import check_choice
from famulus.cli.completion import ASKED
from famulus.cli.help import Command, CommandGroup
from famulus.cli.packages import missing_after, missing_for
from famulus.errors import FamulusError
from famulus.exit_codes import ExitCode

#: Each with its module and its function there.
COMMANDS = {
    "broker": "famulus.cli.broker.broker:broker",
    "brokers": "famulus.cli.status.status:brokers",
    "call": "famulus.cli.calling.call:call",
    "chaos": "famulus.lab.commands.chaos:chaos",
    "completion": "famulus.cli.completion:completion",
    "conform": "famulus.lab.commands.conform:conform",
    "demo": "famulus.lab.commands.demo:demo",
    "doctor": "famulus.cli.doctor:doctor",
    "explain": "famulus.cli.explain.explain:explain",
    "fuzz": "famulus.lab.commands.fuzz:fuzz",
    "init": "famulus.cli.broker.init:init",
    "invite": "famulus.cli.broker.invite:invite",
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
    "docs": "famulus.lab.commands.docs:app",
    "errors": "famulus.cli.status.errors:app",
    "findings": "famulus.cli.pipeline.findings:app",
    "journal": "famulus.cli.journal.app:app",
    "pass": "famulus.cli.admin.passes:app",
    "pipeline": "famulus.cli.pipeline.app:app",
}
#: What the help of a group says about it.
ABOUT_GROUPS = {
    "admins": "List, add and remove admins, and change their passwords.",
    "bench": "Measure this machine: each command starts its own broker, workers and clients.",
    "broker-admin": "Enable, disable, drain or forget a broker of the network; trust the key of a new one.",
    "config": "Look at the config that all brokers share, and change it. Every change stays in its history.",
    "docs": "Make a site of the documentation, from a checkout.",
    "errors": "See which workers a broker ignores, put one on the list, and forgive them.",
    "findings": "What the pipeline found that an admin should do.",
    "journal": "Look at a broker's journal and keep it in order; no Spark is needed.",
    "pass": "Let clients and workers in: make a pass for each, change what it may do, and take it away.",
    "pipeline": "Make tables of what the brokers wrote into their journal, and ask them.",
}
#: `famulus --help`, in its order: a line about each command, so that none has to be imported to list them.
PANELS = {
    "To begin": {
        "demo": "Watch a network lose workers and brokers, and recover.",
        "doctor": "Check whether this machine is fit, and what to fix.",
        "completion": "Print a script by which a shell completes commands.",
    },
    "Tasks": {
        "call": "Send a task to a service, and print the answer.",
        "worker": "Run the worker that a Python module defines.",
        "tasks": "List the last tasks of the journal.",
        "trace": "Tell the life of one task.",
        "explain": "Say what a reason, an outcome or an exit code means.",
    },
    "Brokers": {
        "broker": "Run a broker.",
        "init": "Make a network: its first broker, a family and an admin.",
        "invite": "Write an invitation, with which another broker joins.",
    },
    "What happens now": {
        "status": "Show the state of a broker on one screen.",
        "services": "List the services of a broker.",
        "workers": "List the workers of a broker.",
        "brokers": "List the brokers of a network.",
        "top": "Watch the services of a broker on the whole screen.",
    },
    "For admins": {
        "config": "See and change the config that all brokers share.",
        "broker-admin": "Enable, disable, drain, forget or trust a broker.",
        "pass": "Let clients and workers in, and say what they may do.",
        "admins": "List, add and remove admins; change passwords.",
        "errors": "See and forgive the workers that a broker ignores.",
    },
    "What happened": {
        "journal": "Look at a broker's journal, and keep it in order.",
        "pipeline": "Make tables of the journal, and ask them.",
        "findings": "List what the pipeline found for an admin to do.",
    },
    "For those who develop Famulus": {
        "test": "Check style and types, and run the tests.",
        "simulate": "Run the core in an invented world where anything fails.",
        "chaos": "Break a network of real processes under load.",
        "fuzz": "Feed handshakes and streams what no honest side sends.",
        "conform": "Try a client or a worker on the rules of the protocol.",
        "bench": "Measure this machine.",
        "docs": "Make a site of the documentation.",
    },
}
#: Modules of the laboratory that add a command to a group when they are imported.
ADDED = {"pipeline": ("famulus.lab.commands.synth", "famulus.lab.commands.judge")}
HELP = ["-h", "--help"]
#: Commands that pass unknown options, and -h, on to another program.
SETTINGS = {"test": {"ignore_unknown_options": True, "help_option_names": ["--help"]}}


class _CommandsByName(Mapping[str, Any]):
    """All commands by their names, in the order of the help. One is made when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        if name not in COMMANDS and name not in GROUPS:
            raise KeyError(name)
        return _made(name)

    def __iter__(self) -> Iterator[str]:
        return (name for panel in PANELS.values() for name in panel)

    def __len__(self) -> int:
        return sum(map(len, PANELS.values()))


class _Famulus(CommandGroup):
    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self.commands = _CommandsByName()  # type: ignore[assignment]  # none is ever added or removed

    def list_commands(self, ctx: object) -> list[str]:
        return list(self.commands)

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        from typer._click.shell_completion import CompletionItem

        lines = {name: about for panel in PANELS.values() for name, about in panel.items()}
        named = [CompletionItem(name, help=lines[name]) for name in lines if name.startswith(incomplete)]
        return named or super().shell_complete(ctx, incomplete)

    def format_commands(self, ctx: object, formatter: Any) -> None:
        # The same column in all panels.
        widest = max(map(len, self.commands))
        for heading, panel in PANELS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{widest}}", about) for name, about in panel.items()])


def new_app() -> typer.Typer:
    app = _plain_typer(name="famulus", cls=_Famulus, context_settings={"help_option_names": HELP})
    app.callback(help="A network of brokers that carries tasks from clients to workers by service name.")(_famulus)
    return app


@cache
def _made(name: str) -> Any:
    """A command, or a group with its commands: made in an app of its own, of which only it is used."""
    app = _plain_typer()
    app.callback()(lambda: None)
    if name in COMMANDS:
        app.command(name, cls=Command, context_settings=SETTINGS.get(name))(_load(COMMANDS[name]))
    else:
        for module in ADDED.get(name, ()):
            import_module(module)
        group: typer.Typer = _load(GROUPS[name])
        for each in group.registered_commands:
            each.cls = Command
        app.add_typer(group, name=name, cls=CommandGroup, help=ABOUT_GROUPS[name])
    made: Any = typer.main.get_command(app)
    return made.commands[name]


def _plain_typer(**more: Any) -> typer.Typer:
    # Rich takes longer to import than most commands take.
    return typer.Typer(add_completion=False, pretty_exceptions_enable=False, rich_markup_mode=None, **more)


def _load(where: str) -> Any:
    module, _, name = where.partition(":")
    return getattr(import_module(module), name)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"famulus {__version__}")
        raise typer.Exit


def _famulus(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    pass


def run() -> None:
    """The entry point: whatever happens, a person gets one clear line and a script an exit code."""
    words = sys.argv[1:]
    command = words[0] if words else ""
    try:
        check_choice()
        if ASKED in os.environ:
            # Typer does not know the shells by itself, since it is not to add options of its own.
            from typer._completion_classes import completion_init

            completion_init()
        if set(words).isdisjoint(HELP) and (said := missing_for(command)):
            sys.exit(_complain(said, ExitCode.FAILED))
        code = new_app()(prog_name="famulus", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        code = _complain(error.format_message(), error.exit_code)
    except FamulusError as error:
        code = _complain(str(error), error.exit_code)
    except ModuleNotFoundError as error:
        said = missing_after(error, command)
        if not said:
            raise
        code = _complain(said, ExitCode.FAILED)
    except BrokenPipeError:
        # The reader of our output has gone, as `head` does. Without this Python would complain at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = ExitCode.DONE
    except (KeyboardInterrupt, typer.Abort):
        code = ExitCode.INTERRUPTED
    sys.exit(code if isinstance(code, int) else ExitCode.DONE)


def _complain(sentence: str, code: int) -> int:
    typer.echo("famulus: " + " ".join(sentence.split()), err=True)
    return code
