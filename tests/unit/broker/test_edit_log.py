"""The edit log: what was acknowledged is there, whatever happened to the file, and nothing is there that was not."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import sha256
from itertools import accumulate
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from famulus.broker import edit_log as logs
from famulus.broker import folder as folders
from famulus.broker.edit_log import RECORD_BYTES_MAX, Damage, EditLog, LogContents
from famulus.errors import SettingsError

HEADER_BYTES = 20
FRAME_BYTES = 45
MARKER = b"\xedEDIT\r\n\xff"
NOBODY = 65534


def framed(record: bytes) -> bytes:
    return MARKER + len(record).to_bytes(4, "big") + sha256(record).digest() + b"\0" + record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "edits.log"


def write(path: Path, *records: bytes) -> bytes:
    with EditLog(path) as log:
        log.append(records)
    return path.read_bytes()


def read(path: Path) -> LogContents:
    with EditLog(path) as log:
        return log.read()


@contextmanager
def powerless() -> Iterator[None]:
    """Root may do everything; for a while, be somebody who may not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


# -- whole files -------------------------------------------------------------------------------------------------


def test_what_was_appended_is_read_in_order(path: Path) -> None:
    with EditLog(path) as log:
        assert log.read() == LogContents([], [])
        log.append([b"one", b""])
        log.append([])
        log.append(iter([b"two"]))
        assert log.read() == LogContents([b"one", b"", b"two"], [])
    assert read(path) == LogContents([b"one", b"", b"two"], [])
    assert path.stat().st_mode & 0o777 == 0o600


AWKWARD = st.sampled_from([b"\xed", MARKER[:-1], MARKER, MARKER[:-1] + b"\0", b"\0", framed(b"inside"), MARKER[1:]])
RECORDS = st.lists(st.lists(AWKWARD | st.binary(max_size=20), max_size=6).map(b"".join), max_size=8)


@given(RECORDS, RECORDS)
def test_any_bytes_come_back(first: list[bytes], second: list[bytes]) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "edits.log"
        write(path, *first)
        write(path, *second)
        assert read(path) == LogContents(first + second, [])
        with EditLog(path) as log:
            log.rewrite(second)
        assert read(path) == LogContents(second, [])


def test_the_layout_is_as_documented(path: Path) -> None:
    data = write(path, b"one", MARKER)
    assert data[:16] == b"famulus edits\n\x00\x01"
    assert data[HEADER_BYTES:] == framed(b"one") + framed(MARKER[:-1] + b"\0\xff")


@pytest.mark.parametrize("record", [b"x" * RECORD_BYTES_MAX, (MARKER[:-1] * RECORD_BYTES_MAX)[:RECORD_BYTES_MAX]])
def test_the_largest_record(path: Path, record: bytes) -> None:
    write(path, record, b"next")
    assert read(path) == LogContents([record, b"next"], [])


def test_a_record_that_is_too_large_changes_nothing(path: Path) -> None:
    before = write(path, b"one")
    with EditLog(path) as log:
        with pytest.raises(SettingsError, match=r"edits\.log: a record of 1,048,577 bytes is too large"):
            log.append([b"two", b"x" * (RECORD_BYTES_MAX + 1)])
        assert path.read_bytes() == before
        log.append([b"three"])
    assert read(path).records == [b"one", b"three"]


# -- damaged files -----------------------------------------------------------------------------------------------

SMALL = [b"first", b"second" + MARKER, b"", b"fourth"]
#: Where each record of SMALL ends; the second has one byte more in the file.
ENDS = list(accumulate((FRAME_BYTES + len(r) + (MARKER in r) for r in SMALL), initial=HEADER_BYTES))


@pytest.fixture
def small(path: Path) -> bytes:
    data = write(path, *SMALL)
    assert len(data) == ENDS[-1]
    return data


def test_cut_anywhere_it_keeps_every_whole_record_and_goes_on(path: Path, small: bytes) -> None:
    for size in range(len(small)):
        path.write_bytes(small[:size])
        whole = [record for record, end in zip(SMALL, ENDS[1:], strict=True) if end <= size]
        begin = max((end for end in ENDS if end <= size), default=0)
        with EditLog(path) as log:
            assert log.read() == LogContents(whole, [Damage(begin, size - begin)] if size > begin else [])
            log.append([b"new"])
        assert read(path) == LogContents([*whole, b"new"], []), size


def test_with_any_bit_flipped_it_loses_at_most_the_record_that_was_hit(small: bytes) -> None:
    for place in range(HEADER_BYTES, len(small)):
        hit = next(index for index, end in enumerate(ENDS[1:]) if place < end)
        for bit in range(8):
            data = bytearray(small)
            data[place] ^= 1 << bit
            records = logs.scan(bytes(data), HEADER_BYTES).records
            assert records in (SMALL, SMALL[:hit] + SMALL[hit + 1 :]), (place, bit)


def test_with_any_byte_hit_it_opens_tells_and_goes_on(path: Path, small: bytes) -> None:
    for place in range(len(small)):
        data = bytearray(small)
        data[place] ^= 1 << place % 8
        path.write_bytes(data)
        hit = next(index for index, end in enumerate(ENDS) if place < end)
        # Index 0 is the header, on which no record depends; the zero before each record tells nothing.
        harmless = hit > 0 and place == ENDS[hit - 1] + FRAME_BYTES - 1
        left = SMALL if hit == 0 or harmless else SMALL[: hit - 1] + SMALL[hit:]
        begin = ENDS[hit - 1] if hit else 0
        with EditLog(path) as log:
            assert log.read() == LogContents(left, [] if harmless else [Damage(begin, ENDS[hit] - begin)]), place
            log.append([b"new"])
        assert read(path).records == [*left, b"new"], place


@given(RECORDS, st.lists(st.tuples(st.floats(0, 1), AWKWARD | st.binary(min_size=1, max_size=60)), max_size=4))
def test_overwritten_in_several_places_it_keeps_what_was_not_hit(
    written: list[bytes], strokes: list[tuple[float, bytes]]
) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "edits.log"
        data = bytearray(write(path, *written))
        sizes = [FRAME_BYTES + len(record) + record.count(MARKER[:-1]) for record in written]
        ends = list(accumulate(sizes, initial=HEADER_BYTES))
        assert ends[-1] == len(data)
        hit = bytearray(len(data))
        for where, stroke in strokes:
            begin = int(where * len(data))
            stroke = stroke[: len(data) - begin]
            data[begin : begin + len(stroke)] = stroke
            hit[begin : begin + len(stroke)] = b"\1" * len(stroke)
        path.write_bytes(data)
        untouched = [
            record for record, begin, size in zip(written, ends, sizes, strict=False) if not any(hit[begin:][:size])
        ]
        try:
            records = read(path).records
        except SettingsError:
            assert not untouched
            return
        assert is_part_of(untouched, records)
        # A stroke may be a whole record by itself; nothing else is there that was not written.
        assert set(records) <= {*written, b"inside"}


def is_part_of(some: list[bytes], all_of_them: list[bytes]) -> bool:
    """In the same order, with others in between."""
    rest = iter(all_of_them)
    return all(record in rest for record in some)


def test_a_record_inside_a_damaged_record_is_not_taken_for_one(path: Path) -> None:
    data = bytearray(write(path, b"before", framed(b"forged") + b"!", b"after"))
    data[data.index(b"!")] ^= 1
    path.write_bytes(data)
    assert read(path).records == [b"before", b"after"]
    data[data.index(b"before") + len(b"before")] ^= 1  # the marker of the one around it, too
    path.write_bytes(data)
    assert read(path).records == [b"before", b"after"]


def test_nor_one_that_begins_in_the_hash_before_it(path: Path) -> None:
    """The first byte of the marker is the last of the hash, for one record in 256."""
    sly = next(
        record
        for number in range(100_000)
        if sha256(record := framed(b"forged %d" % number)[1:]).digest().endswith(MARKER[:1])
    )
    data = bytearray(write(path, sly, b"after"))
    data[HEADER_BYTES] ^= 1
    path.write_bytes(data)
    assert read(path).records == [b"after"]


def test_damage_in_the_middle_is_told_until_a_rewrite(path: Path, small: bytes) -> None:
    data = bytearray(small)
    data[ENDS[1] - 1] ^= 1
    path.write_bytes(data)
    hole = Damage(ENDS[0], ENDS[1] - ENDS[0])
    assert str(hole) == "50 bytes at 20"
    with EditLog(path) as log:
        for _ in range(2):
            assert log.read() == LogContents(SMALL[1:], [hole])
        log.rewrite(log.read().records)
        assert log.read() == LogContents(SMALL[1:], [])
    assert read(path) == LogContents(SMALL[1:], [])


def test_what_was_cut_off_is_told_until_a_rewrite(path: Path, small: bytes) -> None:
    path.write_bytes(small[:-1])
    with EditLog(path) as log:
        for _ in range(2):
            assert log.read() == LogContents(SMALL[:3], [Damage(ENDS[3], ENDS[4] - ENDS[3] - 1)])
        log.rewrite(SMALL)
        assert log.read() == LogContents(SMALL, [])


def test_neighbouring_damage_is_one_piece(path: Path, small: bytes) -> None:
    data = bytearray(small)
    for end in ENDS[1:3]:
        data[end - 1] ^= 1
    path.write_bytes(data)
    assert read(path) == LogContents(SMALL[2:], [Damage(ENDS[0], ENDS[2] - ENDS[0])])


# -- files that are not ours, or not ours alone ------------------------------------------------------------------


@pytest.mark.parametrize("foreign", [b"\0", b"identity = 1\n", b"famulus edits\n\x00\x01\x00\x00\x00\x00", bytes(5000)])
def test_a_foreign_file_is_left_alone(path: Path, foreign: bytes) -> None:
    path.write_bytes(foreign)
    with pytest.raises(SettingsError, match=r"edits\.log: is not an edit log; it was left as it is"):
        EditLog(path)
    assert path.read_bytes() == foreign
    assert os.listdir(path.parent) == [path.name]


def test_a_newer_version_is_left_alone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "VERSION", 2)
    newer = write(path, b"one")
    monkeypatch.undo()
    with pytest.raises(SettingsError, match=r"edits\.log: has version 2 of the format, and this Famulus knows 1"):
        EditLog(path)
    assert path.read_bytes() == newer


def test_a_folder_in_its_place(path: Path) -> None:
    path.mkdir()
    with pytest.raises(SettingsError, match=r"edits\.log: cannot be opened \(Is a directory\)"):
        EditLog(path)


def test_a_pipe_in_its_place(path: Path) -> None:
    os.mkfifo(path)
    with pytest.raises(SettingsError, match=r"edits\.log: is not a file"):
        EditLog(path)


def test_no_folder_around_it(path: Path) -> None:
    with pytest.raises(SettingsError, match=r"cannot be opened \(No such file or directory\)"):
        EditLog(path / "edits.log")


def test_no_permission(path: Path) -> None:
    before = write(path, b"one")
    path.chmod(0o400)
    with powerless(), pytest.raises(SettingsError, match=r"edits\.log: cannot be opened \(Permission denied\)"):
        EditLog(path)
    assert path.read_bytes() == before


def test_a_second_process_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folders, "PATIENCE_NS", 0)
    with EditLog(path) as log:
        for _ in range(2):
            with pytest.raises(SettingsError, match=r"edits\.log: another process uses it"):
                EditLog(path)
            # It is another file now, and still taken.
            log.rewrite([b"one"])
    assert read(path).records == [b"one"]


def test_one_that_is_about_to_end_is_waited_for(path: Path) -> None:
    """Also when the file that we wait for is replaced meanwhile: what we get is the one that has the name."""
    log = EditLog(path)

    def end_soon() -> None:
        time.sleep(0.1)
        log.rewrite([b"one"])
        time.sleep(0.1)
        log.append([b"two"])
        log.close()

    thread = threading.Thread(target=end_soon)
    thread.start()
    with EditLog(path) as next_one:
        assert next_one.read().records == [b"one", b"two"]
    thread.join()


def test_closed_twice_it_closes_nobody_else_s_file(path: Path) -> None:
    log = EditLog(path)
    log.close()
    other = os.open(path, os.O_RDWR)
    log.close()
    with pytest.raises(SettingsError, match="cannot be appended to"):
        log.append([b"one"])
    os.close(other)


# -- the disk ----------------------------------------------------------------------------------------------------


def test_nothing_is_acknowledged_before_the_disk_has_it(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[tuple[int, int]] = []
    sync = os.fsync

    def spy(fd: int) -> None:
        synced.append((os.fstat(fd).st_ino, os.fstat(fd).st_size))
        sync(fd)

    monkeypatch.setattr(os, "fsync", spy)
    with EditLog(path) as log:
        folder = (path.parent.stat().st_ino, path.parent.stat().st_size)
        assert synced == [(path.stat().st_ino, HEADER_BYTES), folder]
        log.append([b"one", b"two"])
        assert synced[2:] == [(path.stat().st_ino, HEADER_BYTES + 2 * (FRAME_BYTES + 3))]
        log.rewrite([b"one"])
        assert synced[3:] == [(path.stat().st_ino, HEADER_BYTES + FRAME_BYTES + 3), folder]


def test_a_disk_that_does_not_sync_has_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = write(path, b"one")

    def fail(fd: int) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    with EditLog(path) as log:
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(SettingsError, match=r"as it was \(Input/output error\)"):
            log.append([b"two"])
        with pytest.raises(SettingsError, match=r"cannot be rewritten \(Input/output error\)"):
            log.rewrite([b"two"])
        monkeypatch.undo()
        assert path.read_bytes() == before
        assert os.listdir(path.parent) == [path.name]
        log.append([b"three"])
    assert read(path) == LogContents([b"one", b"three"], [])


def test_a_rewrite_that_fails_leaves_the_former_records(path: Path) -> None:
    write(path, b"one")
    beside = path.with_name("edits.log.new")
    beside.mkdir()
    with EditLog(path) as log:
        with pytest.raises(SettingsError, match=r"edits\.log: cannot be rewritten \(Is a directory\)"):
            log.rewrite([b"two"])
        log.append([b"three"])
        beside.rmdir()
        beside.write_bytes(b"what a crash left" * 100)
        log.rewrite([b"four"])
    assert read(path) == LogContents([b"four"], [])
    assert not beside.exists()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    if os.geteuid() != 0:
        pytest.skip("only root may mount a small disk")
    disk = tmp_path / "disk"
    disk.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", disk], capture_output=True, text=True, check=False
    )
    if mounted.returncode:
        pytest.skip(f"a small disk cannot be mounted here: {mounted.stderr.strip()}")
    yield disk
    subprocess.run(["umount", disk], check=True)


def test_a_full_disk(small_disk: Path) -> None:
    path = small_disk / "edits.log"
    ballast = small_disk / "ballast"
    ballast.write_bytes(bytes(30_000))
    with EditLog(path) as log:
        log.append([b"one"])
        before = path.read_bytes()
        with pytest.raises(SettingsError, match=r"edits\.log: .*as it was \(No space left on device\)"):
            log.append([b"two", b"x" * 100_000])
        assert path.read_bytes() == before
        with pytest.raises(SettingsError, match=r"edits\.log: cannot be rewritten \(No space left on device\)"):
            log.rewrite([b"x" * 100_000])
        assert path.read_bytes() == before
        assert sorted(os.listdir(small_disk)) == ["ballast", "edits.log"]
        log.append([b"three"])
        written = 2
        with suppress(SettingsError):
            while True:
                log.append([b"%d" % written * 1000])
                written += 1
        assert written > 2
        ballast.unlink()
        log.append([b"last"])
    reading = read(path)
    assert reading.damage == []
    assert (len(reading.records), reading.records[-1]) == (written + 1, b"last")


def test_a_full_disk_when_it_is_made(small_disk: Path) -> None:
    path = small_disk / "edits.log"
    ballast = small_disk / "ballast"
    with suppress(OSError):
        ballast.write_bytes(bytes(100_000))
    with pytest.raises(SettingsError, match="No space left on device"):
        EditLog(path)
    ballast.unlink()
    write(path, b"one")
    assert read(path) == LogContents([b"one"], [])


APPEND_WITH_A_LIMIT = """
import resource, sys
from pathlib import Path
from famulus.broker.edit_log import EditLog
from famulus.errors import SettingsError
log = EditLog(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (10_200, 10_200))
number = 0
try:
    while True:
        log.append([b"%d" % number * 100, b"second"])
        number += 1
except SettingsError as error:
    print(number, error)
    log.append([b"small"])
"""


def test_a_file_that_may_not_grow(path: Path) -> None:
    said = subprocess.run(
        [sys.executable, "-c", APPEND_WITH_A_LIMIT, path], capture_output=True, text=True, check=True
    ).stdout
    number, _, sentence = said.strip().partition(" ")
    assert sentence == f"{path}: cannot be appended to, and is as it was (File too large)"
    expected = [record for i in range(int(number)) for record in (b"%d" % i * 100, b"second")]
    assert read(path) == LogContents([*expected, b"small"], [])


APPEND_FOR_EVER = """
import sys
from pathlib import Path
from famulus.broker.edit_log import EditLog
log = EditLog(Path(sys.argv[1]))
number = len(log.read().records)
while True:
    log.append([b"%d " % n * 500 for n in range(number, number + 3)])
    number += 3
    print(number, flush=True)
"""


def test_what_was_acknowledged_outlives_a_kill(path: Path) -> None:
    held = 0
    for life in range(8):
        child = subprocess.Popen([sys.executable, "-c", APPEND_FOR_EVER, path], stdout=subprocess.PIPE)
        assert child.stdout is not None
        acknowledged = int(child.stdout.readline())
        time.sleep(0.003 * life)
        os.kill(child.pid, signal.SIGKILL)
        for line in child.stdout.read().splitlines():
            acknowledged = int(line)
        child.stdout.close()
        child.wait()
        with EditLog(path) as log:
            records = log.read().records
        assert records == [b"%d " % number * 500 for number in range(len(records))]
        assert len(records) >= acknowledged > held
        held = acknowledged
