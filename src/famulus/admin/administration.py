"""The commands that a broker understands, one method each. Knows their arguments and results, and no sockets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from famulus.admin.secret import Secret
from famulus.core.config.draft import Draft
from famulus.core.steward import answers
from famulus.core.steward.answers import Accepted, Cleared, ErrorWorkers, KeyHistory, SeenBy, Shown

__all__ = ["Administration", "Shown"]

#: A command and its arguments: the body of the answer.
Ask = Callable[[str, dict[str, Any]], bytes]


class Administration:
    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    # -- looking ------------------------------------------------------------------------------------------------

    def show(self, prefix: str = "") -> Shown:
        """All keys that begin with this prefix, including deleted ones."""
        return answers.read_shown(self._ask("show", {"prefix": prefix}))

    def history(self, key: str) -> KeyHistory:
        return answers.read_history(self._ask("history", {"key": key}))

    def seen(self, edits: Sequence[str]) -> SeenBy:
        """How many brokers have seen these edits."""
        return answers.read(SeenBy, self._ask("seen", {"edits": list(edits)}))

    # -- changing -----------------------------------------------------------------------------------------------

    def edit(self, drafts: Sequence[Draft], *, dry_run: bool = False) -> Accepted:
        """All of them or none."""
        arguments = {"drafts": msgspec.to_builtins(list(drafts)), "dry_run": dry_run}
        return answers.read(Accepted, self._ask("edit", arguments))

    def set_password(self, family: str, name: str, password: Secret, parents: Sequence[str]) -> Accepted:
        """The broker makes the hash, since it alone decides how."""
        arguments = {"family": family, "name": name, "new_password": password, "parents": list(parents)}
        return answers.read(Accepted, self._ask("set_password", arguments))

    # -- workers that are ignored -------------------------------------------------------------------------------

    def errors(self) -> ErrorWorkers:
        return answers.read(ErrorWorkers, self._ask("errors", {}))

    def clear_errors(self, identity: str | None) -> int | bool:
        """How many workers are no longer ignored, of this one or of all; a bool if the broker does not count them."""
        return answers.read(Cleared, self._ask("errors_clear", {"identity": identity})).cleared
