"""The native twin of `famulus.journal.packing_python`."""

def pack(
    letters: str, rows: list[tuple[object, ...]], codes: dict[bytes, int], head: bytes, ids: list[bytes], /
) -> bytes: ...
