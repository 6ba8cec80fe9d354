"""The commands of docs/pipeline.md, one after the other, as a user would type them."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from tests.longer import longer

ROOT = Path(__file__).parents[3]
LIMIT_S = 600


def commands() -> list[str]:
    """Of all blocks of the page that are commands to run, which is those that need no broker."""
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "docs" / "pipeline.md").read_text(), re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines()]


@longer
@pytest.mark.timeout(LIMIT_S)
def test_from_a_synthetic_journal_to_findings(tmp_path: Path) -> None:
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])}
    said: dict[str, str] = {}
    for command in commands():
        words = [sys.executable, "-m", "famulus", *shlex.split(command)[1:]]
        ran = subprocess.run(words, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        assert ran.returncode == 0, f"{command}\n{ran.stderr}"
        # Nothing of Spark's own talk.
        assert not [line for line in ran.stderr.splitlines() if " WARN " in line or "WARNING" in line], ran.stderr
        said.setdefault(words[3] + words[4], "")
        said[words[3] + words[4]] += ran.stdout
    assert "planted truths in journal" in said["pipelinesynth"]
    assert "hours made in" in said["pipelinerun"]
    assert "tasks" in said["pipelinequery"]
    assert "change" in said["pipelinecompare"]
    assert "the target is that 95 % of the tasks" in said["pipelinewhatif"]
    assert "invoice" in said["pipelinequery"].partition("burnt")[2]
    assert "The error budget of invoice is used up" in said["findings--tables"]
    assert (tmp_path / "report.html").stat().st_size > 10_000
    assert (tmp_path / "tables" / "findings" / "part-00.parquet").exists()
