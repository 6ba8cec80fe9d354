"""The config on disk: whole or not at all, for its owner only, and never a reason to fail."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from famulus.worker.saved_config import SavedConfig

CONFIG = b'{"family_config":{"name":"f","brokers":[{"identity":"b1","backend":"tcp://b1:7101"}]}}'
OTHER = b'{"family_config":{"name":"f","brokers":[{"identity":"b2","backend":"tcp://b2:7101"}]}}'


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "worker.json"


def test_what_was_written_is_read(path: Path) -> None:
    SavedConfig(path).write(CONFIG)
    told = SavedConfig(path).read()
    assert told is not None
    assert told.brokers == ("tcp://b1:7101",)


def test_without_a_path_nothing_is_kept() -> None:
    saved = SavedConfig(None)
    saved.write(CONFIG)
    assert saved.read() is None


def test_the_first_start_is_no_reason_for_a_warning(path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert SavedConfig(path).read() is None
    assert caplog.text == ""


def test_nobody_else_may_read_it_whatever_was_there_before(path: Path) -> None:
    path.write_bytes(OTHER)
    path.chmod(0o644)
    SavedConfig(path).write(CONFIG)
    assert path.read_bytes() == CONFIG
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_is_there_already_is_not_written_again(path: Path) -> None:
    SavedConfig(path).write(CONFIG)
    inode = path.stat().st_ino
    saved = SavedConfig(path)
    saved.read()
    saved.write(CONFIG)
    assert path.stat().st_ino == inode
    saved.write(OTHER)
    assert path.read_bytes() == OTHER


def test_what_is_no_config_is_not_written(path: Path) -> None:
    path.write_bytes(b"foreign")
    SavedConfig(path).write(b"")
    SavedConfig(path).write(b"{}")
    assert path.read_bytes() == b"foreign"


def test_a_disk_that_is_full_leaves_the_old_one_and_no_draft(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    path.write_bytes(OTHER)
    monkeypatch.setattr(os, "fsync", full)
    saved = SavedConfig(path)
    saved.write(CONFIG)
    assert f"{path}: the config cannot be saved (No space left on device)" in caplog.text
    assert path.read_bytes() == OTHER
    assert list(path.parent.iterdir()) == [path]
    monkeypatch.undo()
    saved.write(CONFIG)
    assert path.read_bytes() == CONFIG, "it is tried again with the next one that comes"


@pytest.mark.parametrize("place", ["no/such/folder/worker.json", "."])
def test_a_place_where_no_file_can_be_is_a_warning(
    tmp_path: Path, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    saved = SavedConfig(tmp_path / place)
    assert saved.read() is None
    saved.write(CONFIG)
    assert "cannot be saved" in caplog.text
    assert list(tmp_path.iterdir()) == []
