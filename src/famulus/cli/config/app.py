"""`famulus config`: the config that all brokers of a network share."""

from __future__ import annotations

from famulus.cli.admin.session import new_group
from famulus.cli.config.edit import resolve, rollback, set_value, unset
from famulus.cli.config.file import export_file, import_file
from famulus.cli.config.look import conflicts, diff, get, history, show

app = new_group(
    {
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
)
