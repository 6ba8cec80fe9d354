"""Whose edit it is, and what proves that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from famulus.core.config.edit import Signer


@dataclass(frozen=True)
class Author:
    name: str
    #: What signs for an admin, by the ids of the edits that made the public halves known; of a broker alone, nothing.
    signers: Mapping[str, Signer] = field(default_factory=dict, repr=False)
