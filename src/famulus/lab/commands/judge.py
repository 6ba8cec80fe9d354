"""`famulus pipeline judge`: whether the findings tell what is wrong, all of it and nothing else."""

from __future__ import annotations

import json
import tempfile
import time
from functools import partial
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
    chaos: Annotated[
        float, typer.Option("--chaos", metavar="SECONDS", min=0, help="Judge by real runs of chaos that long instead.")
    ] = 0.0,
    master: MasterOption = None,
    conf: ConfOption = None,
    as_json: JsonOption = False,
) -> None:
    """Tell how much of what is wrong the findings see, and how much they see that is not there.

    For each seed a journal is invented in which some troubles are planted: workers that are slow or come and go, a
    crash, tasks that vanish, edits that fight, too few slots, and so on; in one of ten there are none. Then the
    findings are compared with what was planted. Recall is the share of troubles that were found, and precision the
    share of findings that are about one.

    With --chaos nothing is invented and nothing planted: for each seed, a real network is killed, stopped and cut off
    for that long, as `famulus chaos` does. Then each finding has to be explained by a fault that struck, and a crash
    whose traces are all there has to be found.

    Exit code: 0 if recall is 1 and precision at least 0.98; 1 if not. The same seed makes the same journal.

    Examples:

    famulus pipeline judge

    famulus pipeline judge --seeds 1 --first 7

    famulus pipeline judge --seeds 2 --chaos 60
    """
    from famulus.lab.judge.judging import judge as by_invented
    from famulus.lab.judge.score import Score
    from famulus.lab.judge.upheaval import judge_chaos as by_chaos

    score, began = Score(), time.monotonic()
    with (
        tempfile.TemporaryDirectory(prefix="famulus-judge-") as scratch,
        spark_session(master, conf, brief=True) as spark,
    ):
        chosen, folder = range(first, first + seeds), Path(scratch)
        tell = partial(typer.echo, err=True)
        run = by_chaos(spark, chosen, chaos, folder, tell) if chaos else by_invented(spark, chosen, folder)
        for judged in run:
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
    found = f"{judged.found} finding{'' if judged.found == 1 else 's'}"
    typer.echo(f"seed {judged.seed}: {hits} of {judged.expected} found; {found}, {len(judged.false)} false")
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
