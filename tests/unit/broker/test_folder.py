"""The data folder: made for one broker, used by one, and everything else is refused in words."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from famulus.broker import folder as folders
from famulus.broker.folder import Folder, Network, write_all
from famulus.errors import SettingsError

NOBODY = 65534
NETWORK = Network(network_id="ab" * 32, identity="b1", root_public="cd" * 32)


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    return Folder(tmp_path / "data")


@pytest.fixture
def made(folder: Folder) -> Folder:
    folder.create()
    return folder


@contextmanager
def powerless(path: Path) -> Iterator[None]:
    """Root may do everything; for a while, be somebody who may not, and own this."""
    root = os.geteuid() == 0
    if root:
        os.chown(path, NOBODY, NOBODY)
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_its_parts(folder: Folder) -> None:
    parts = [folder.key, folder.edits, folder.settings, folder.network]
    assert [part.name for part in parts] == ["broker.key", "edits.log", "broker.toml", "network.json"]
    assert {part.parent for part in parts} == {folder.path}


# -- making one --------------------------------------------------------------------------------------------------


def test_it_is_made_for_us_alone(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "var" / "data")
    assert folder.is_empty
    before = os.umask(0)
    try:
        folder.create()
    finally:
        os.umask(before)
    assert mode_of(folder.path) == 0o700
    assert [mode_of(each) for each in folder.path.iterdir()] == [0o600]
    assert folder.is_empty
    with folder.lock():
        assert folder.is_empty
    folder.create()


def test_an_empty_folder_is_taken_over(folder: Folder) -> None:
    folder.path.mkdir(0o755)
    assert folder.is_empty
    folder.create()
    assert mode_of(folder.path) == 0o700


def test_one_that_is_not_empty_is_not(folder: Folder) -> None:
    folder.path.mkdir(0o755)
    (folder.path / "letter").write_text("dear")
    assert not folder.is_empty
    with pytest.raises(SettingsError, match="data: is not empty; a new broker needs a folder of its own"):
        folder.create()
    assert mode_of(folder.path) == 0o755
    assert os.listdir(folder.path) == ["letter"]


def test_nor_one_that_has_a_broker(made: Folder) -> None:
    made.write_network(NETWORK)
    with pytest.raises(SettingsError, match="data: is not empty"):
        made.create()


def test_a_file_in_its_place(folder: Folder) -> None:
    folder.path.write_text("")
    for attempt in (folder.create, lambda: folder.is_empty, folder.lock().__enter__):
        with pytest.raises(SettingsError, match=r"data: cannot be read \(Not a directory\)"):
            attempt()


def test_a_place_where_we_may_not_write() -> None:
    with TemporaryDirectory() as name:
        place = Path(name)
        place.chmod(0o500)
        with powerless(place), pytest.raises(SettingsError, match=r"data: cannot be created \(Permission denied\)"):
            Folder(place / "data").create()
        place.chmod(0o700)


# -- using one ---------------------------------------------------------------------------------------------------


def test_one_broker_at_a_time(made: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "PATIENCE_NS", 0)
    with made.lock(), pytest.raises(SettingsError, match="data: another process uses it"), made.lock():
        pytest.fail("two of them")
    with made.lock():
        pass


def test_a_lock_ends_with_its_process(made: Folder) -> None:
    hold = "import sys, time; from pathlib import Path; from famulus.broker.folder import Folder\n"
    hold += "with Folder(Path(sys.argv[1])).lock(): print('held', flush=True); time.sleep(60)"
    holder = subprocess.Popen([sys.executable, "-c", hold, made.path], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    threading.Timer(0.2, holder.kill).start()
    # It is still held; that it ends soon is enough.
    with made.lock():
        assert holder.wait(60) < 0
    holder.stdout.close()


def test_patience_has_an_end(made: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "PATIENCE_NS", 100_000_000)
    with made.lock():
        began = time.monotonic()
        with pytest.raises(SettingsError), made.lock():
            pytest.fail("two of them")
        assert 0.1 <= time.monotonic() - began < 20


def test_a_missing_folder(folder: Folder) -> None:
    with pytest.raises(SettingsError, match=r"data: cannot be read \(No such file or directory\)"), folder.lock():
        pytest.fail("there is none")
    assert not folder.path.exists()


@pytest.mark.parametrize("names", [[], ["letter"], ["broker.toml", "broker.key"]])
def test_a_foreign_folder_is_left_alone(folder: Folder, names: list[str]) -> None:
    folder.path.mkdir(0o700)
    for name in names:
        (folder.path / name).write_text("")
    with pytest.raises(SettingsError, match="data: is not the data folder of a broker"), folder.lock():
        pytest.fail("it is not ours")
    assert sorted(os.listdir(folder.path)) == sorted(names)


def test_one_that_came_from_a_backup_without_its_lock(made: Folder) -> None:
    made.write_network(NETWORK)
    (made.path / "broker.lock").unlink()
    with made.lock():
        assert made.read_network() == NETWORK


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o720, 0o702, 0o755])
def test_one_that_others_may_look_into_is_refused_with_the_remedy(made: Folder, mode: int) -> None:
    made.path.chmod(mode)
    with pytest.raises(SettingsError) as caught, made.lock():
        pytest.fail("others may look into it")
    assert str(caught.value) == f"{made.path}: others may look into it (mode {mode:o}); run: chmod 700 {made.path}"


def test_one_that_we_may_not_write_to() -> None:
    with TemporaryDirectory() as name:
        folder = Folder(Path(name))
        folder.network.write_text("{}")
        folder.path.chmod(0o500)
        said = r"cannot be written to \(Permission denied\)"
        with powerless(folder.path), pytest.raises(SettingsError, match=said), folder.lock():
            pytest.fail("it cannot be locked")
        folder.path.chmod(0o700)


def test_what_fails_under_the_lock_is_not_about_the_lock(made: Folder) -> None:
    with pytest.raises(FileNotFoundError), made.lock():
        raise FileNotFoundError
    with made.lock():
        pass


# -- its network -------------------------------------------------------------------------------------------------


def test_the_network_comes_back(made: Folder) -> None:
    made.write_network(NETWORK)
    assert made.read_network() == NETWORK
    assert mode_of(made.network) == 0o600
    assert not made.is_empty
    other = Network(network_id="ef" * 32, identity="b2", root_public="01" * 32)
    made.write_network(other)
    assert made.read_network() == other
    assert sorted(os.listdir(made.path)) == ["broker.lock", "network.json"]


def test_no_network_yet(made: Folder) -> None:
    with pytest.raises(SettingsError, match=r"network\.json: cannot be read \(No such file or directory\)"):
        made.read_network()


@pytest.mark.parametrize(
    "damage",
    [
        {"root_public": "CD" * 32},
        {"network_id": "ab" * 31},
        {"network_id": "ab" * 32 + "\n"},
        {"identity": ""},
        {"identity": "b" * 256},
        {"identity": 7},
    ],
)
def test_a_network_that_cannot_be_is_told(made: Folder, damage: dict[str, object]) -> None:
    made.network.write_bytes(msgspec.json.encode(msgspec.to_builtins(NETWORK) | damage))
    with pytest.raises(SettingsError, match=rf"network\.json: is damaged \(.+{next(iter(damage))}"):
        made.read_network()


def test_a_torn_network_is_told(made: Folder) -> None:
    made.write_network(NETWORK)
    text = made.network.read_bytes().rstrip()
    for size in range(len(text)):
        made.network.write_bytes(text[:size])
        with pytest.raises(SettingsError, match=r"network\.json: is damaged"):
            made.read_network()
    made.network.write_bytes(b"\xff")
    with pytest.raises(SettingsError, match=r"network\.json: is damaged"):
        made.read_network()


def test_a_network_that_cannot_be_written_leaves_the_former(made: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    made.write_network(NETWORK)
    other = Network(network_id="ef" * 32, identity="b2", root_public="01" * 32)

    def full(fd: int, data: object, offset: int) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(SettingsError, match=r"network\.json: cannot be written \(No space left on device\)"):
        made.write_network(other)
    assert made.read_network() == NETWORK
    assert sorted(os.listdir(made.path)) == ["broker.lock", "network.json"]


# -- writing -----------------------------------------------------------------------------------------------------


def test_a_disk_may_take_it_in_pieces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = os.pwrite
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset: whole(fd, bytes(data)[:3], offset))
    with (tmp_path / "file").open("wb") as file:
        write_all(file.fileno(), b"0123456789", 2)
    assert (tmp_path / "file").read_bytes() == b"\0\x000123456789"


@pytest.mark.parametrize(("number", "refused"), [(errno.EINVAL, False), (errno.EIO, True)])
def test_a_folder_that_cannot_be_synced(
    made: Folder, monkeypatch: pytest.MonkeyPatch, number: int, refused: bool
) -> None:
    """Some file systems cannot do it at all, which is no reason to do nothing there."""

    def fail(fd: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", fail)
    if refused:
        with pytest.raises(OSError, match="Input/output error"):
            folders.sync_folder(made.path)
    else:
        folders.sync_folder(made.path)


def test_the_number_of_the_last_start_is_kept(made: Folder) -> None:
    assert made.read_boot() == 0
    made.write_boot(1_800_000_000_000)
    made.write_boot(1_800_000_000_001)
    assert Folder(made.path).read_boot() == 1_800_000_000_001


@pytest.mark.parametrize("damage", [b"", b"\xff\x00", b"12 34", b"9" * 5000])
def test_a_damaged_number_of_the_last_start_is_none(made: Folder, damage: bytes) -> None:
    made.boot.write_bytes(damage)
    assert made.read_boot() in (0, int(b"9" * 20))
