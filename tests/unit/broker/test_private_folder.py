"""Folders of dead brokers are removed, and no others."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from famulus.broker.private_folder import LOCK, MAKING_S, PREFIX, PrivateFolder, remove_dead


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def left_behind(place: Path, name: str = "dead") -> Path:
    """As a killed broker leaves it."""
    folder = place / f"{PREFIX}{name}"
    folder.mkdir(mode=0o700)
    (folder / LOCK).touch()
    (folder / "task").touch()
    return folder


def test_a_folder_that_nobody_holds_is_removed(place: Path) -> None:
    dead = left_behind(place)
    assert str(dead) in remove_dead()
    assert not dead.exists()
    assert str(dead) not in remove_dead()


def test_a_folder_stays_while_its_broker_lives_and_goes_with_it() -> None:
    script = "from famulus.broker.private_folder import *; f = PrivateFolder(); print(f.path, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": tempfile.gettempdir()},
    ) as owner:
        assert owner.stdout is not None
        path = owner.stdout.readline().strip()
        Path(path, "task").touch()
        assert path not in remove_dead()
        assert Path(path, "task").exists()
        owner.send_signal(signal.SIGKILL)
        owner.wait()
    assert path in remove_dead()
    assert not Path(path).exists()


def test_our_own_folder_is_ours_alone_and_stays(place: Path) -> None:
    mine = PrivateFolder()
    assert Path(mine.path).stat().st_mode & 0o777 == 0o700
    assert remove_dead() == [] or mine.path not in remove_dead()
    mine.remove()
    assert not Path(mine.path).exists()


def test_a_folder_that_is_just_being_made_stays_and_an_old_one_does_not(place: Path) -> None:
    new, old = place / f"{PREFIX}new", place / f"{PREFIX}old"
    new.mkdir()
    old.mkdir()
    long_ago = old.stat().st_mtime - 2 * MAKING_S
    os.utime(old, (long_ago, long_ago))
    remove_dead()
    assert new.exists()
    assert not old.exists()


def test_links_lead_nowhere(place: Path) -> None:
    """Anybody may put a name into /tmp."""
    treasure = place / "treasure"
    treasure.mkdir()
    (treasure / LOCK).touch()
    (treasure / "gold").touch()
    (place / f"{PREFIX}link").symlink_to(treasure)
    dead = left_behind(place)
    (dead / "gold").symlink_to(treasure / "gold")
    remove_dead()
    assert not dead.exists()
    assert (treasure / "gold").exists()
    pipe = place / f"{PREFIX}pipe"
    pipe.mkdir()
    os.mkfifo(pipe / LOCK)
    remove_dead()
    assert pipe.exists(), "and a lock is a file"


def test_what_has_folders_in_it_is_not_a_brokers_and_stays(place: Path) -> None:
    strange = left_behind(place)
    (strange / "deeper").mkdir()
    (strange / "deeper" / "gold").touch()
    remove_dead()
    assert (strange / "deeper" / "gold").exists()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make files of somebody else")
def test_a_folder_of_somebody_else_stays(place: Path) -> None:
    folder = left_behind(place)
    os.chown(folder, 12345, 12345)
    remove_dead()
    assert folder.exists()
