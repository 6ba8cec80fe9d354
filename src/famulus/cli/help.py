"""How the help of a command looks: what a value is called, and that nothing is cut off. Knows no command."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, get_args

import typer
from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption

from famulus.exit_codes import ExitCode

#: What a value is called where neither the option says it nor its name and its type do.
NAMES = {
    "address": "ADDRESS",
    "admin": "NAME",
    "broker": "ADDRESS",
    "every": "SECONDS",
    "identity": "NAME",
    "idle": "SECONDS",
    "seconds": "SECONDS",
    "soak": "SECONDS",
    "timeout": "SECONDS",
    "user": "NAME",
}
#: How the names of some numbers end.
UNITS = {"ms": "MS", "port": "PORT", "s": "SECONDS"}
#: Longer than any sentence: nothing is cut off.
ANY_LENGTH = 10_000


class Command(TyperCommand):
    """A command whose help is for people: no types of Python, and ranges in words."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        name_values(self.params)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_parameters(self, ctx, formatter)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        return [self.options_metavar or "", *(_in_usage(each) for each in self.params if is_argument(each))]


class CommandGroup(TyperGroup):
    """Commands that belong together. Who names none of them sees what there is, which is not what was asked for."""

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        name_values(self.params)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        if not args and not self.invoke_without_command and not ctx.resilient_parsing:
            typer.echo(ctx.get_help(), err=True)
            raise typer.Exit(ExitCode.USAGE)
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        write_parameters(self, ctx, formatter)
        self.format_commands(ctx, formatter)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, each.get_short_help_str(ANY_LENGTH)) for name, each in self.commands.items()])


def is_argument(parameter: object) -> bool:
    return isinstance(parameter, TyperArgument)


# -- what a value is called ----------------------------------------------------------------------------------------


def name_values(parameters: Sequence[Any]) -> None:
    """Also for the sentence that complains of a wrong one."""
    for each in parameters:
        if each.metavar is None and isinstance(each, TyperOption | TyperArgument):
            each.metavar = _name_of(each)


def _name_of(parameter: Any) -> str:
    kind = parameter.type_descriptor
    if kind.is_choice and not is_argument(parameter):
        return "|".join(map(str, kind.choices))
    if parameter.name in NAMES:
        return NAMES[parameter.name]
    first, last = parameter.name.partition("_")[0], parameter.name.rpartition("_")[2]
    of_each = get_args(kind.annotation)[0] if kind.is_list else kind.annotation
    if of_each is Path:
        return "FOLDER" if "folder" in (first, last) else "FILE"
    if of_each in (int, float):
        return UNITS.get(last, "N")
    return str(last.upper())


def _in_usage(argument: Any) -> str:
    name = argument.metavar if argument.required else f"[{argument.metavar}]"
    return f"{name}..." if argument.nargs != 1 else name


# -- its parameters ------------------------------------------------------------------------------------------------


def write_parameters(command: Any, ctx: Any, formatter: Any) -> None:
    shown = [each for each in command.get_params(ctx) if not each.hidden]
    for heading, rows in (
        ("Arguments", [_argument_row(each, ctx) for each in shown if is_argument(each)]),
        ("Options", [_row(each, ctx) for each in shown if not is_argument(each)]),
    ):
        if rows:
            with formatter.section(heading):
                formatter.write_dl(rows)


def _row(parameter: Any, ctx: Any) -> tuple[str, str]:
    name, text = parameter.get_help_record(ctx)
    bounds = parameter._get_number_range_help_str() if hasattr(parameter, "_get_number_range_help_str") else None
    return name, text.replace(bounds, bounds_in_words(parameter.min, parameter.max)) if bounds else text


def _argument_row(argument: Any, ctx: Any) -> tuple[str, str]:
    """Typer adds the type to the name, which only matters where there are few values."""
    text, kind = _row(argument, ctx)[1], argument.type_descriptor
    return argument.metavar, f"{text} One of: {', '.join(kind.choices)}." if kind.is_choice else text


def bounds_in_words(least: float | None, most: float | None) -> str:
    if most is None:
        return f"at least {least:,}"
    return f"at most {most:,}" if least is None else f"{least:,} to {most:,}"
