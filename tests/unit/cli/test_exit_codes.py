"""One number for one meaning: in one module, and in one table of the docs."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import famulus
from famulus import errors
from famulus.errors import FamulusError
from famulus.exit_codes import ExitCode

SOURCE = Path(famulus.__file__).parent
DOCS = Path(__file__).parents[3] / "docs"
#: Where commands end.
FILES = [SOURCE / "errors.py", *sorted((SOURCE / "cli").rglob("*.py")), *sorted((SOURCE / "lab/commands").glob("*.py"))]
ENDS = ("Exit", "exit", "_exit", "SystemExit", "_complain")


def numbers_at_the_end(tree: ast.AST) -> Iterator[int]:
    """Lines where a command ends with a number that has no name, or an error has such a code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "attr", getattr(node.func, "id", "")) in ENDS:
            parts: list[ast.AST] = [*node.args, *node.keywords]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and "code" in ast.dump(node).split("ctx=Store()")[0]:
            parts = [node.value] if node.value else []
        else:
            continue
        for part in parts:
            # Not what is compared with or looked up: `words[0]`.
            if any(isinstance(each, ast.Constant) and type(each.value) is int for each in branches(part)):
                yield node.lineno


def branches(part: ast.AST) -> Iterator[ast.AST]:
    """What it may be: the value, or either side of a condition."""
    if isinstance(part, ast.keyword):
        yield from branches(part.value)
    elif isinstance(part, ast.IfExp):
        yield from branches(part.body)
        yield from branches(part.orelse)
    elif isinstance(part, ast.BinOp):
        yield from branches(part.left)
        yield from branches(part.right)
    else:
        yield part


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_no_command_ends_with_a_bare_number(path: Path) -> None:
    assert not list(numbers_at_the_end(ast.parse(path.read_text("utf-8"))))


@pytest.mark.parametrize(
    "line",
    [
        "raise typer.Exit(3)",
        "raise typer.Exit(code=3)",
        "sys.exit(1 if bad else 0)",
        "sys.exit(128 + number)",
        "sys.exit(_complain(said, 1))",
        "exit_code = 3",
        "exit_code: int = 3",
        "code = 130",
    ],
)
def test_a_bare_number_would_be_seen(line: str) -> None:
    assert list(numbers_at_the_end(ast.parse(line)))


def test_every_error_ends_with_a_code_of_the_table() -> None:
    kinds = [each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, FamulusError)]
    assert len(kinds) > 30
    assert all(isinstance(kind.exit_code, ExitCode) for kind in kinds)


def test_the_docs_have_the_same_table() -> None:
    text = (DOCS / "operations.md").read_text("utf-8")
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| .{4,}\|$", text, re.MULTILINE)
    assert rows == [(str(int(code)), code.name) for code in ExitCode]


def test_the_docs_have_it_once_and_whoever_tells_of_codes_links_there() -> None:
    for page in sorted(DOCS.rglob("*.md")):
        text = page.read_text("utf-8")
        if page.name not in ("operations.md", "errors.md"):
            assert not re.search(r"^\| exit code \|", text, re.MULTILINE), page.name
            assert not re.search(r"^Exit codes: ", text, re.MULTILINE), f"{page.name}: no link to the table"
