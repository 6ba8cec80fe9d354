"""Two rows of one key are noticed, within bounds."""

from __future__ import annotations

import pyarrow as pa
import pytest

from famulus.errors import AskFailed
from famulus.spark import seen_keys
from famulus.spark.seen_keys import SeenKeys


def add(seen: SeenKeys, *keys: str | None) -> None:
    seen.add(keys, pa.record_batch({"id": pa.array(keys, pa.string())}))


def test_a_key_is_noticed_again_within_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seen_keys, "COMPARED", 4)
    seen = SeenKeys()
    add(seen, "a", "b", None, None)
    for keys in (("c", "a"), ("d", "d")):
        with pytest.raises(AskFailed, match=f"the same key, id='{keys[1]}'"):
            add(seen, *keys)
    add(seen, "c", "d", "e")
    with pytest.raises(AskFailed, match="id='a'"):
        add(seen, "a")
    add(seen, "f", "g", "h", "i")
    add(seen, "a")  # five rows later nobody knows it
    for key in "fghi":
        with pytest.raises(AskFailed):
            add(seen, key)
