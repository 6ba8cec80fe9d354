"""A Parquet file of some kilobytes that unpacks to 320 MiB, and whose footer says that it does not."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

TEXT_BYTES = 320 * 1024 * 1024


def write_bomb(tables: Path) -> Path:
    """Where findings are looked for. In a process of its own: whoever wrote such a text has grown by it, too."""
    command = [sys.executable, "-m", "tests.unit.tables.bombs", str(tables)]
    subprocess.run(command, check=True, cwd=Path(__file__).parents[3])
    return tables / "findings" / "part-00.parquet"


def _main(tables: str) -> None:
    import pyarrow.parquet as pq
    from tests.unit.tables.conftest import finding, write

    path = write(
        Path(tables),
        finding(1, evidence="0" * TEXT_BYTES),
        compression="zstd",
        use_dictionary=False,
        write_statistics=False,
    )
    content = path.read_bytes()
    about = pq.ParquetFile(path).metadata
    group = about.row_group(0)
    evidence = next(each for each in map(group.column, range(group.num_columns)) if each.path_in_schema == "evidence")
    footer = len(content) - 8 - int.from_bytes(content[-8:-4], "little")
    ending = content[footer:]
    for size in (group.total_byte_size, evidence.total_uncompressed_size):
        ending = ending.replace(_number(size), _number(1000, like=_number(size)))
    path.write_bytes(content[:footer] + ending)
    assert pq.ParquetFile(path).metadata.row_group(0).total_byte_size == 1000


def _number(value: int, like: bytes = b"") -> bytes:
    """As the footer has it (zigzag, seven bits a byte); as many bytes as another one."""
    value <<= 1
    written: list[int] = []
    while value >= 0x80 or len(written) + 1 < len(like):
        written.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*written, value])


if __name__ == "__main__":
    _main(*sys.argv[1:])
