"""A shell for the command line: each command in a process of its own, forked from one that has it loaded already.

python command_line.py

A line on standard input is a JSON object with `arguments`, `env` and `typed`; the answer is one with `code`, `stdout`
and `stderr`. To start Python and load everything takes ten times as long as most commands do.
"""

from __future__ import annotations

import importlib
import io
import json
import os
import pkgutil
import sys
import tempfile
from contextlib import redirect_stdout
from typing import Any, BinaryIO

import famulus.admin
from famulus.cli.main import new_app, run


def obey(order: dict[str, Any]) -> dict[str, Any]:
    with tempfile.TemporaryFile() as typed, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        typed.write(order["typed"].encode())
        typed.seek(0)
        pid = os.fork()
        if pid == 0:
            _become(order, typed, out, err)
        _, status = os.waitpid(pid, 0)
        return {"code": os.waitstatus_to_exitcode(status), "stdout": _all(out), "stderr": _all(err)}


def _become(order: dict[str, Any], *standard: BinaryIO) -> None:
    for number, file in enumerate(standard):
        os.dup2(file.fileno(), number)
    os.environ.update(order["env"])
    sys.argv = ["famulus", *order["arguments"]]
    code = 1
    try:
        run()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _all(file: BinaryIO) -> str:
    file.seek(0)
    return file.read().decode()


def load() -> None:
    """Whatever commands may import, also Typer's own when it reads a command line."""
    for module in pkgutil.iter_modules(famulus.admin.__path__):
        importlib.import_module(f"famulus.admin.{module.name}")
    importlib.import_module("famulus.cli.admin.words")
    with redirect_stdout(io.StringIO()):
        new_app()(["explain", "--help"], standalone_mode=False)


def main() -> None:
    load()
    for line in sys.stdin:
        print(json.dumps(obey(json.loads(line))), flush=True)


if __name__ == "__main__":
    main()
