"""`famulus pipeline judge`: whether the findings tell what is wrong, all of it and nothing else."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from famulus.cli.pipeline.app import app
from famulus.cli.pipeline.options import ConfOption, JsonOption, MasterOption, spark_session
from famulus.exit_codes import ExitCode

if TYPE_CHECKING:
    from famulus.lab.judge.score import Judged, Score


@app.command()
def judge(
    seeds: Annotated[int, typer.Option("--seeds", metavar="N", min=1, help="Journals to judge by.")] = 20,
    first: Annotated[int, typer.Option("--first", metavar="SEED", min=0, help="The seed of the first one.")] = 1,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell how much of what is wrong the findings see, and how much they see that is not there.

    For each seed a journal is invented in which some troubles are planted: workers that are slow or come and go, a
    crash, tasks that vanish, edits that fight, too few slots, and so on; in one of ten there are none. Then the
    findings are compared with what was planted. Recall is the share of troubles that were found, and precision the
    share of findings that are about one.

    Exit code: 0 if recall is 1 and precision at least 0.98; 1 if not. The same seed makes the same journal.

    Examples:

    famulus pipeline judge

    famulus pipeline judge --seeds 1 --first 7
    """
    from famulus.lab.judge.judging import judge as run
    from famulus.lab.judge.score import Score

    score, began = Score(), time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="famulus-judge-") as scratch,
        spark_session(master, conf, brief=True) as spark,
    ):
        for judged in run(spark, range(first, first + seeds), Path(scratch)):
            score.journals.append(judged)
            if not as_json:
                _show(judged)
        if as_json:
            typer.echo(json.dumps(_facts(score), indent=2))
        else:
            recall, precision = f"recall {score.recall:.3f}", f"precision {score.precision:.3f}"
            typer.echo(f"{recall}, {precision} over {seeds} journals, in {time.monotonic() - began:.0f} s")
    if not score.is_good:
        raise typer.Exit(ExitCode.FAILED)


def _show(judged: Judged) -> None:
    hits = judged.expected - len(judged.missed)
    typer.echo(f"seed {judged.seed}: {hits} of {judged.expected} found, {len(judged.false)} false")
    for finding, truth in judged.missed.items():
        typer.echo(f"  missed: {finding.kind} {finding.subject}, of the planted {truth}")
    for finding in judged.false:
        typer.echo(f"  false: {finding.kind} {finding.subject}")


def _facts(score: Score) -> dict[str, Any]:
    return {
        "recall": score.recall,
        "precision": score.precision,
        "journals": [
            {
                "seed": each.seed,
                "expected": each.expected,
                "found": each.found,
                "missed": [{"kind": kind, "subject": subject} for kind, subject in each.missed],
                "false": [{"kind": kind, "subject": subject} for kind, subject in each.false],
            }
            for each in score.journals
        ],
    }
