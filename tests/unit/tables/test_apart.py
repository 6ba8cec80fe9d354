"""A file that unpacks to far more than it says costs the process that reads it its life, and nobody else anything."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.unit.tables.bombs import write_bomb
from tests.unit.tables.conftest import finding, write

from famulus.errors import NotFindings
from famulus.tables import apart
from famulus.tables.finding import Findings


def read(path: Path, rows_max: int = 100) -> Findings:
    with path.open("rb") as file:
        return apart.read(file, rows_max)


def test_findings_are_the_same_as_when_they_are_read_at_hand(tmp_path: Path) -> None:
    from famulus.tables import reading

    path = write(tmp_path, finding(2, key=None, value=None), finding(1), finding(3))
    with path.open("rb") as file:
        assert read(path, 2) == reading.read(file, 2)


def test_what_is_wrong_with_a_file_is_said(tmp_path: Path) -> None:
    path = tmp_path / "rubbish"
    path.write_bytes(b"rubbish" * 100)
    with pytest.raises(NotFindings, match="Parquet magic bytes"):
        read(path)


@pytest.fixture(scope="module")
def bomb(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_bomb(tmp_path_factory.mktemp("bomb"))


def test_a_page_that_unpacks_to_far_more_than_the_footer_says_is_not_read(bomb: Path) -> None:
    assert bomb.stat().st_size < 100_000
    with pytest.raises(NotFindings):
        read(bomb)


def test_the_footer_of_that_file_is_a_lie_that_reading_at_hand_believes(bomb: Path) -> None:
    """Or else the test above would show nothing."""
    script = (
        "import resource, sys\n"
        "from famulus.tables import reading\n"
        "from famulus.errors import NotFindings\n"
        "try:\n"
        "    reading.read(open(sys.argv[1], 'rb'))\n"
        "except NotFindings:\n"
        "    pass\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)\n"
    )
    command = [sys.executable, "-c", script, str(bomb)]
    grown_mib = int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    assert grown_mib > 300
