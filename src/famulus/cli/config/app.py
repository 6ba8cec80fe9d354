"""`famulus config`: the config that all brokers of a network share."""

from __future__ import annotations

from collections.abc import Callable

from famulus.cli.admin.session import add_command, new_group
from famulus.cli.config.edit import resolve, rollback, set_value, unset
from famulus.cli.config.file import export_file, import_file
from famulus.cli.config.look import conflicts, diff, get, history, show

app = new_group()

COMMANDS: dict[str, Callable[..., None]] = {
    "show": show,
    "get": get,
    "set": set_value,
    "unset": unset,
    "history": history,
    "diff": diff,
    "rollback": rollback,
    "conflicts": conflicts,
    "resolve": resolve,
    "export": export_file,
    "import": import_file,
}

for _name, _function in COMMANDS.items():
    add_command(app, _name, _function)
