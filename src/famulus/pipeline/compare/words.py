"""A comparison as people read it. Knows no files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from famulus.pipeline.compare.comparison import BINS_MIN, P_MAX, TASKS_MIN, Comparison, Figures, Tested
from famulus.pipeline.report.words import count, duration_ns, share

HEADS = ("service", "", "tasks", "failed", "p50", "p95", "p99", "wait", "run")


def rows(each: Comparison) -> Iterator[Sequence[str]]:
    """Before, after, and the difference, in the columns of HEADS."""
    yield (each.service, "before", *_cells(each.before))
    yield ("", "after", *_cells(each.after))
    if each.before.tasks and each.after.tasks:
        yield ("", "change", *_changes(each.before, each.after))


def sentences(each: Comparison) -> Iterator[str]:
    if not each.is_tested:
        yield (f"too few tasks to say: on each side it takes {TASKS_MIN}, in {BINS_MIN} different minutes or hours")
        return
    if each.fails and each.failed is not None:
        how = "more" if each.failed.after > each.failed.before else "less"
        shares = f"{share(each.failed.after)} of tasks instead of {share(each.failed.before)}"
        yield f"fails {how}: {shares}{_p(each.failed)}"
    if each.slower and each.time is not None:
        ratio = each.time.ratio
        how = f"slower: {ratio:.3g}" if ratio > 1 else f"faster: {ratio:.2g}"
        yield f"{how} times the time of a typical task{_p(each.time)}"
    if each.slow_tasks and each.slow is not None:
        how = "more" if each.slow.after > each.slow.before else "fewer"
        yield (
            f"{how} slow tasks: {share(each.slow.after)} take longer than {duration_ns(each.slow_ns)}, "
            f"instead of {share(each.slow.before)}{_p(each.slow)}"
        )
    if not each.differs:
        yield "no difference that chance does not explain"


def _cells(side: Figures) -> Iterator[str]:
    yield count(side.tasks)
    yield share(side.failed_share)
    for value in _times(side):
        yield duration_ns(value)


def _times(side: Figures) -> tuple[float | None, ...]:
    return side.p50_ns, side.p95_ns, side.p99_ns, side.wait_ns, side.run_ns


def _changes(before: Figures, after: Figures) -> Iterator[str]:
    yield _percent(before.tasks, after.tasks)
    points = 100 * ((after.failed_share or 0) - (before.failed_share or 0))
    # The sign of what is rounded, or there would be a -0.0.
    yield f"{round(points, 1) + 0:+.1f}"
    for one, other in zip(_times(before), _times(after), strict=True):
        yield _percent(one, other)


def _percent(before: float | None, after: float | None) -> str:
    if not before or after is None:
        return "–"
    ratio = after / before
    return f"x{ratio:.3g}" if ratio >= 3 else f"{round(100 * (ratio - 1)) + 0:+d} %"


def _p(tested: Tested) -> str:
    return " (p < 0.001)" if tested.p_of_all < 0.001 else f" (p = {tested.p_of_all:.3f})"


def summary(comparisons: Sequence[Comparison]) -> str:
    tested = sum(each.is_tested for each in comparisons)
    differ = sum(each.differs for each in comparisons)
    if not tested:
        return "nothing can be said: there are too few tasks"
    services = "1 service differs" if tested == 1 else f"{tested} services differ"
    return f"{differ} of {services} by more than chance explains (p < {P_MAX:g}, corrected for all tests made here)"
