"""What Java has loaded is kept for later starts; here without Java, which says itself when it has finished."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from famulus.pipeline.run.archive import UNFINISHED_S, Archive
from famulus.pipeline.run.java import Java

#: How an archive begins that was finished.
FINISHED = b"\xa2\xba\x0b\xf0 and so on"


def archive(folder: Path, build: str = "25.0.2+10-LTS") -> Archive:
    return Archive(folder, Java(Path("/a/home"), build, "PATH", has_vector=True))


def written_by(option: str | None) -> Path:
    assert option is not None
    return Path(option.partition("=")[2])


@pytest.mark.parametrize(
    ("build", "make", "use"),
    [
        ("17.0.9+9", "-XX:ArchiveClassesAtExit=", "-XX:SharedArchiveFile="),
        ("25.0.2+10-LTS", "-XX:AOTCacheOutput=", "-XX:AOTCache="),
    ],
)
def test_the_first_session_makes_it_and_later_ones_use_it(tmp_path: Path, build: str, make: str, use: str) -> None:
    made = archive(tmp_path, build)
    assert made.to_use() is None
    option = made.to_make()
    assert option is not None
    assert option.startswith(make)
    written_by(option).write_bytes(FINISHED)
    used = made.to_use()
    assert used is not None
    assert used.startswith(use)
    assert written_by(used).read_bytes() == FINISHED
    assert used == archive(tmp_path, build).to_use()
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("so_far", [b"", bytes(4096)])
def test_one_that_is_still_written_is_not_used_and_nobody_else_begins(tmp_path: Path, so_far: bytes) -> None:
    written_by(archive(tmp_path).to_make()).write_bytes(so_far)
    assert archive(tmp_path).to_use() is None
    assert archive(tmp_path).to_make() is None


def test_one_that_was_never_finished_is_begun_again_after_a_while(tmp_path: Path) -> None:
    left = written_by(archive(tmp_path).to_make())
    on_the_way = left.with_name(left.name + ".config")
    for each in (left, on_the_way):
        each.write_bytes(bytes(4))
        before = left.stat().st_mtime - UNFINISHED_S - 1
        os.utime(each, (before, before))
    assert archive(tmp_path).to_make() is not None
    assert not on_the_way.exists()


def test_another_build_of_java_has_another_one(tmp_path: Path) -> None:
    written_by(archive(tmp_path, "25.0.1+8").to_make()).write_bytes(FINISHED)
    assert archive(tmp_path, "25.0.2+10-LTS").to_use() is None


def test_a_folder_that_cannot_be_written_makes_none(tmp_path: Path) -> None:
    assert archive(tmp_path / "missing").to_make() is None
