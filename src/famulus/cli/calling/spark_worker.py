"""`famulus worker --spark`: a function of DataFrames as a service."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from types import ModuleType
from typing import TYPE_CHECKING

from famulus.cli.calling.modules import imported, look_for, split
from famulus.cli.options import option
from famulus.errors import SettingsError

if TYPE_CHECKING:
    from famulus.cli.logs import ModuleLogs
    from famulus.spark.batch_job import Function
    from famulus.worker.worker import Worker


@dataclass(frozen=True)
class SparkOptions:
    spark: bool = option("Each batch of tasks is a Spark job of the function MODULE:NAME.", "--spark", default=False)
    service: str | None = option("With --spark: the name of the service.")
    master: str | None = option("With --spark: Spark's master. [default: local[*]]", metavar="URL")
    conf: list[str] | None = option(
        "With --spark: a setting of Spark; may be repeated. It wins over ours.", metavar="KEY=VALUE"
    )
    takes: str | None = option("With --spark: bodies are JSON of these columns, such as 'a double, b double'.")
    returns: str | None = option("With --spark: answers are JSON of these columns of the result.")
    rows_per_batch: int | None = option("With --spark: the most tasks of a job. [default: 5000]")
    max_wait_ms: float | None = option("With --spark: how long the first of them waits for others. [default: 200]")

    @property
    def is_wanted(self) -> bool:
        given = [each.name for each in fields(self) if each.name != "spark" and getattr(self, each.name)]
        if given and not self.spark:
            raise SettingsError(f"--{given[0].replace('_', '-')} is only for a worker with --spark")
        return self.spark


def run_with_spark(target: str, options: SparkOptions, override: Callable[[Worker], None], logs: ModuleLogs) -> bool:
    """True if no task was given up."""
    from pyspark.cloudpickle import register_pickle_by_value

    from famulus.cli.pipeline.options import settings, spark_session
    from famulus.spark.serving import SparkService

    module_name, name = split(target)
    if not name:
        raise SettingsError(f"{target!r}: with --spark, name a function as well, such as scoring:score")
    if not options.service:
        raise SettingsError("--service: with --spark, say which service the function does")
    # Spark takes seconds to start, and a mistake in a name should be found before that.
    settings(options.conf or ())
    look_for(module_name, target)
    # Where there are several jobs, none waits for all of another.
    conf = ["spark.scheduler.mode=FAIR", *(options.conf or ())]
    terms = {each: getattr(options, each) for each in ("takes", "returns", "rows_per_batch", "max_wait_ms")}
    with spark_session(options.master, conf) as spark:
        # Only now: a module that makes columns when it is imported needs a session.
        with logs.while_imported():
            module = imported(module_name, target)
        function = _function(module, name)
        # What the function does with rows in Python is done by executors. They have no such module, and no session with
        # which it could make columns.
        register_pickle_by_value(module)  # type: ignore[no-untyped-call]
        service = SparkService(
            spark, options.service, function, **{each: value for each, value in terms.items() if value is not None}
        )
        override(service.worker)
        with logs.while_it_runs():
            return service.run()


def _function(module: ModuleType, name: str) -> Function:
    found = getattr(module, name, None)
    if callable(found):
        function: Function = found
        return function
    what = "has no" if found is None else f"has a {type(found).__name__}, not a function, as"
    raise SettingsError(f"the module {module.__name__} {what} {name!r}; with --spark it takes and returns a DataFrame")
