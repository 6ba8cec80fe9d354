"""The `famulus` command: gathers the commands and decides how they end. Knows nothing of what they do.

To add a command: write `famulus/cli/<name>.py` with a function that has Typer annotations and a docstring
(its help), import it below and add it to COMMANDS. Keep the imports at the top of that file light, and put
those of zmq and other heavy modules into the function: every start of every command pays for what is imported
here.

Exit codes: 0 done; 1 failed; 2 wrong usage; 130 interrupted; others as `exit_code` of the error says.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from famulus import __version__
from famulus._plain import check_choice
from famulus.cli import (
    admins,
    bench,
    broker,
    broker_admin,
    call,
    config,
    demo,
    doctor,
    errors_list,
    explain,
    findings,
    init,
    journal,
    pipeline,
    simulate,
    status,
    tasks,
    test,
    top,
    trace,
    worker,
)
from famulus.errors import FamulusError

#: In the order of the help.
COMMANDS: dict[str, Callable[..., Any]] = {
    "broker": broker.broker,
    "brokers": status.brokers,
    "call": call.call,
    "demo": demo.demo,
    "doctor": doctor.doctor,
    "explain": explain.explain,
    "init": init.init,
    "services": status.services,
    "simulate": simulate.simulate,
    "status": status.status,
    "tasks": tasks.tasks,
    "test": test.run_tests,
    "top": top.top,
    "trace": trace.trace,
    "worker": worker.worker,
    "workers": status.workers,
}
#: Commands that have commands of their own.
GROUPS: dict[str, typer.Typer] = {
    "admins": admins.app,
    "bench": bench.app,
    "broker-admin": broker_admin.app,
    "config": config.app,
    "errors": errors_list.app,
    "findings": findings.app,
    "pipeline": pipeline.app,
    "journal": journal.app,
}
#: Those that hand options they do not know, and -h, to another program.
SETTINGS = {"test": {"ignore_unknown_options": True, "help_option_names": ["--help"]}}

app = typer.Typer(
    name="famulus",
    help="A network of brokers that carries tasks from clients to workers by service name.",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"famulus {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def _famulus(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


for _name, _command in COMMANDS.items():
    app.command(_name, context_settings=SETTINGS.get(_name))(_command)
for _name, _group in GROUPS.items():
    app.add_typer(_group, name=_name)


def run() -> None:
    """The entry point: whatever happens, a person gets one clear line and a script an exit code."""
    try:
        check_choice()
        code = app(prog_name="famulus", standalone_mode=False)
        sys.stdout.flush()
    except typer.TyperException as error:
        code = _complain(error.format_message(), error.exit_code)
    except FamulusError as error:
        code = _complain(str(error), error.exit_code)
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
