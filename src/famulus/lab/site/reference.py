"""Writes the pages of the API from the sources: names, signatures and docstrings. Runs none of what it describes.

It reads sources and not what is imported, since a compiled function has no signature.
"""

from __future__ import annotations

import ast
import re
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import famulus

SOURCE = Path(famulus.__file__).parent
PUBLIC = ("famulus", "famulus.testing")
LINE_MAX = 88
NEW_LINE = "\n"
#: Public for other modules of ours, and of no use to anybody else.
INNER = {
    *("AsyncClient.after_fork", "Client.after_fork", "Worker.after_fork"),
    *("Worker.functions", "Worker.settings_to_run"),
    *(f"StandIn.{name}" for name in ("ask", "to_router", "to_workers", "to_clients", "to_delegate", "to_steward")),
    *(f"StandIn.{name}" for name in ("open_stream", "go_on", "want", "leave")),
    *("Service.argument", "Service.result"),
}
#: Pages by the packages of their names.
PAGES = {
    "api/clients.md": ("Clients", ("client", "core"), "What programs send tasks with."),
    "api/workers.md": ("Workers and services", ("worker", "typed"), "What programs take tasks with, and their types."),
    "api/errors.md": ("Errors", ("errors",), "What is raised. [Errors and their remedies](errors.md) says what to do."),
    "api/testing.md": ("Testing", ("testing",), "For tests of programs that use Famulus."),
}
FIRST = ("Client", "AsyncClient", "Worker", "Task", "Service", "FamulusError", "OutcomeError")

_Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class Member:
    """Something with a name that a class has."""

    name: str
    signature: str
    about: str


@dataclass(slots=True)
class PublicName:
    """Something that can be imported."""

    name: str
    home: str
    #: Its module, without ours: `client.threads`.
    module: str
    signature: str
    about: str
    bases: list[str] = field(default_factory=list)
    members: list[Member] = field(default_factory=list)


def entries() -> list[PublicName]:
    """Everything public."""
    found = [_entry(home, name) for home in PUBLIC for name in _public(home)]
    return sorted(found, key=lambda entry: (FIRST.index(entry.name) if entry.name in FIRST else len(FIRST), entry.name))


def pages() -> dict[str, str]:
    """The text of each page, as if it were a file."""
    everything = entries()
    return {
        path: _page(title, lead, [each for each in everything if each.module.partition(".")[0] in packages])
        for path, (title, packages, lead) in PAGES.items()
    }


def _public(home: str) -> list[str]:
    module = import_module(home)
    names = getattr(module, "__all__", None) or dir(module)
    return [name for name in names if not name.startswith("_")]


# -- reading ----------------------------------------------------------------------------------------------------------


def _entry(home: str, name: str) -> PublicName:
    module = getattr(import_module(home), name).__module__
    found = _definitions(module)[name]
    about = ast.get_docstring(found) or ""
    if isinstance(found, _Function):
        return PublicName(name, home, module.removeprefix("famulus."), _signature(found, name, module), about)
    made = [_signature(each, name, module, skip=1) for each in _functions(found, "__init__")]
    bases = [base.id for base in found.bases if isinstance(base, ast.Name)]
    members = {each.name: each for each in _members(found, module)}
    for base in bases:
        # What is private has no entry of its own.
        if base.startswith("_"):
            private = _definitions(module)[base]
            assert isinstance(private, ast.ClassDef)
            members = {each.name: each for each in _members(private, module)} | members
    shown = [each for each in members.values() if f"{name}.{each.name}" not in INNER]
    signature = "\n".join(made) if not any(base.endswith("Error") for base in bases) else ""
    return PublicName(name, home, module.removeprefix("famulus."), signature, about, bases, shown)


def _members(kind: ast.ClassDef, module: str) -> Iterator[Member]:
    lines = _lines(module)
    for statement in kind.body:
        if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
            name = statement.target.id
            if not name.startswith("_"):
                yield Member(name, f"{name}: {ast.unparse(statement.annotation)}", _remark(lines, statement.lineno))
        elif isinstance(statement, ast.Assign) and (remark := _remark(lines, statement.lineno)):
            yield Member(ast.unparse(statement.targets[0]), ast.unparse(statement), remark)
        elif isinstance(statement, ast.FunctionDef) and statement.name == "__init__":
            yield from _attributes(statement, lines)
    for name in dict.fromkeys(each.name for each in kind.body if isinstance(each, _Function)):
        if not name.startswith("_"):
            variants = _functions(kind, name)
            last = [each for each in kind.body if isinstance(each, _Function) and each.name == name][-1]
            about = ast.get_docstring(last) or ""
            if "property" in map(ast.unparse, last.decorator_list):
                given = ast.unparse(last.returns) if last.returns else "Any"
                yield Member(name, f"{name}: {given}", about)
            else:
                if last not in variants and (options := _options(last, module)):
                    about += f"\n\nOptions: {options}."
                yield Member(name, "\n".join(_signature(each, name, module, skip=1) for each in variants), about)


def _attributes(function: ast.FunctionDef, lines: Sequence[str]) -> Iterator[Member]:
    """What `__init__` sets, if a remark says what it is."""
    taken = [*function.args.args, *function.args.kwonlyargs]
    types = {each.arg: ast.unparse(each.annotation) for each in taken if each.annotation}
    for statement in function.body:
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Attribute) and not target.attr.startswith("_"):
            remark = _remark(lines, statement.lineno)
            if remark:
                kind = types.get(target.attr)
                yield Member(target.attr, f"{target.attr}: {kind}" if kind else target.attr, remark)


def _functions(kind: ast.ClassDef, name: str) -> list[_Function]:
    """What a caller may choose from: the overloads, if there are any."""
    named = [each for each in kind.body if isinstance(each, _Function) and each.name == name]
    overloads = [each for each in named if "overload" in map(ast.unparse, each.decorator_list)]
    return overloads or named


def _signature(function: _Function, name: str, module: str, skip: int = 0) -> str:
    taken = _taken(function.args, vars(import_module(module)), skip)
    words = "async def " if isinstance(function, ast.AsyncFunctionDef) else "" if skip else "def "
    gives = f" -> {ast.unparse(function.returns)}" if function.returns and function.name != "__init__" else ""
    whole = f"{words}{name}({', '.join(taken)}){gives}"
    if len(whole) <= LINE_MAX:
        return whole
    # Each argument on a line of its own.
    return f"{words}{name}(\n{''.join(f'    {each},{NEW_LINE}' for each in taken)}){gives}"


def _taken(arguments: ast.arguments, names: dict[str, Any], skip: int) -> list[str]:
    """What a function takes, one by one."""
    places = [*arguments.posonlyargs, *arguments.args]
    defaults = [*[None] * (len(places) - len(arguments.defaults)), *arguments.defaults]
    written = [_argument(each, default, names) for each, default in zip(places, defaults, strict=True)]
    if arguments.posonlyargs:
        written.insert(len(arguments.posonlyargs), "/")
    if arguments.vararg:
        written.append(f"*{_argument(arguments.vararg, None, names)}")
    elif arguments.kwonlyargs:
        written.append("*")
    named = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    written += [_argument(each, default, names) for each, default in named]
    if arguments.kwarg:
        written.append(f"**{_argument(arguments.kwarg, None, names)}")
    return written[skip:]


def _argument(argument: ast.arg, default: ast.expr | None, names: dict[str, Any]) -> str:
    kind = f": {ast.unparse(argument.annotation)}" if argument.annotation else ""
    return f"{argument.arg}{kind} = {_value(default, names)}" if default else f"{argument.arg}{kind}"


def _value(written: ast.expr, names: dict[str, Any]) -> str:
    """A number rather than the name that it has among us."""
    value = names.get(written.id) if isinstance(written, ast.Name) else None
    return repr(value) if isinstance(value, int | float | str | bytes) else ast.unparse(written)


def _options(function: _Function, module: str) -> str:
    """What its overloads call `options`."""
    names = vars(import_module(module))
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    return ", ".join(f"`{_argument(each, default, names)}`" for each, default in named)


def _remark(lines: Sequence[str], number: int) -> str:
    """The `#:` lines above a line."""
    found: list[str] = []
    while lines[number - 2].lstrip().startswith("#:"):
        number -= 1
        found.insert(0, lines[number - 1].lstrip()[2:].strip())
    return " ".join(found)


@cache
def _lines(module: str) -> tuple[str, ...]:
    inside = module.removeprefix("famulus").strip(".").replace(".", "/")
    return tuple((SOURCE / f"{inside}.py").read_text("utf-8").splitlines())


@cache
def _definitions(module: str) -> dict[str, ast.ClassDef | _Function]:
    tree = ast.parse("\n".join(_lines(module)))
    return {each.name: each for each in tree.body if isinstance(each, ast.ClassDef | _Function)}


# -- writing ----------------------------------------------------------------------------------------------------------


def _page(title: str, lead: str, shown: Sequence[PublicName]) -> str:
    parts = [f"# {title}", lead.replace("(errors.md", "(../docs/errors.md")]
    for entry in shown:
        parts += [f"## {entry.name}", _code(f"from {entry.home} import {entry.name}")]
        if entry.bases and entry.bases[-1].endswith("Error"):
            parts.append(f"A [`{entry.bases[-1]}`](#{entry.bases[-1].lower()})." if _is_public(entry.bases[-1]) else "")
        parts += [_code(entry.signature) if entry.signature else "", prose(entry.about)]
        for member in entry.members:
            parts += [f"### {entry.name}.{member.name}", _code(member.signature), prose(member.about)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _is_public(name: str) -> bool:
    return any(name in _public(home) for home in PUBLIC)


def _code(text: str) -> str:
    return f"```python\n{text}\n```"


def prose(docstring: str) -> str:
    """As Markdown: paragraphs that are Python become code, and columns a table."""
    blocks: list[tuple[str, str]] = []
    for block in re.split(r"\n\s*\n", docstring):
        kind = "code" if _is_code(block) else "table" if _is_table(block) else "words"
        text = textwrap.dedent(block) if kind == "code" else block
        if blocks and kind == blocks[-1][0] == "code":
            blocks[-1] = (kind, f"{blocks[-1][1]}\n\n{text}")
        else:
            blocks.append((kind, text))
    return "\n\n".join(_WRITERS[kind](text) for kind, text in blocks)


def _is_code(block: str) -> bool:
    try:
        parsed = ast.parse(textwrap.dedent(block))
    except SyntaxError:
        return False
    return not (len(parsed.body) == 1 and isinstance(parsed.body[0], ast.Expr) and _is_word(parsed.body[0].value))


def _is_word(value: ast.expr) -> bool:
    return isinstance(value, ast.Name | ast.Constant)


_ROW = re.compile(r"^(\w+)(?: {2,})(\S.*)$")


def _is_table(block: str) -> bool:
    return all(map(_ROW.match, block.splitlines()))


def _table(block: str) -> str:
    rows = [match for match in map(_ROW.match, block.splitlines()) if match]
    written = "\n".join(f"| `{row[1]}` | {row[2].replace('|', chr(92) + '|')} |" for row in rows)
    return f"| | |\n|---|---|\n{written}"


def _words(block: str) -> str:
    return block


_WRITERS = {"code": _code, "table": _table, "words": _words}
