"""Opens and closes the Spark session. All settings of Spark that we choose are in this file, each with its reason."""

from __future__ import annotations

import atexit
import logging
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession

from famulus.errors import NoJava, SparkFailed
from famulus.pipeline.io.place import first_line
from famulus.pipeline.run import java
from famulus.pipeline.run.archive import Archive
from famulus.pipeline.tables.scale import GIVEN

DEFAULT_MASTER: Final = "local[*]"
#: Of the driver's heap, which in local mode is all there is: a quarter of the machine, within these bounds.
HEAP_MIB_MIN: Final = 1024
HEAP_MIB_MAX: Final = 8192
#: How long the JVM may take to end.
CLOSING_S: Final = 60


def is_here(master: str) -> bool:
    """Whether everything runs on this machine, in one JVM or in several."""
    return re.fullmatch(r"local(-cluster)?(\[.*\])?", master) is not None


def cores_of(master: str) -> int:
    """How many tasks Spark will run at once, as far as one can tell beforehand."""
    here = len(os.sched_getaffinity(0))
    if found := re.fullmatch(r"local\[(\d+)(,\d+)?\]", master):
        return int(found[1])
    if found := re.fullmatch(r"local-cluster\[(\d+),\s*(\d+),\s*\d+\]", master):
        return int(found[1]) * int(found[2])
    return 1 if master == "local" else here


def settings(master: str, *, heap_mib: int | None = None) -> dict[str, str]:
    """Those that do not depend on the Java at hand."""
    chosen = {
        "spark.master": master,
        "spark.app.name": "famulus",
        # Instants are in UTC from the broker to the last table.
        "spark.sql.session.timeZone": "UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.driver.memory": f"{heap_mib or _heap_mib()}m",
        # Above this many paths Spark lists files with a Spark job, which takes seconds for what takes milliseconds.
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
        # A file that Spark finds bad, though we did not, must not vanish silently.
        "spark.sql.files.ignoreCorruptFiles": "false",
        # We move what Spark wrote ourselves, and a marker of success would be in the way.
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "false",
        # Spark's own default is an old type that others read as a time without a zone.
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.parquet.compression.codec": "zstd",
        # A third of the time for a hundredth more space; and no two tasks have the same id.
        "spark.hadoop.parquet.compression.codec.zstd.level": "1",
        "spark.hadoop.parquet.enable.dictionary#message_id": "false",
        # Spark generates code for each query, and Java compiles it better the more often it runs. With Spark's default
        # of 100 pieces, none would be left by the next time that the same table is made.
        "spark.sql.codegen.cache.maxEntries": "1000",
        # Written for a page that nobody opens, for every query.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.maxPlanStringLength": "1000",
        # Otherwise PySpark looks at the stack for every derived column, which takes longer than all the rest.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        # Merges small partitions of a shuffle, so that a small increment does not pay for what a large one needs.
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.adaptive.coalescePartitions.parallelismFirst": "false",
        # Executors on other machines need not have famulus; on this one they find it where we have it.
        "spark.executorEnv.PYTHONPATH": os.pathsep.join(_python_path()),
    }
    if is_here(master):
        # Spark's own 200 would be 200 tiny tasks for each shuffle. Four per core, so that a large one fits into memory.
        chosen["spark.sql.shuffle.partitions"] = str(4 * cores_of(master))
    return chosen


@contextmanager
def session(
    master: str | None = None,
    *,
    heap_mib: int | None = None,
    more: Mapping[str, str] | None = None,
    archive: bool = True,
    brief: bool = False,
) -> Iterator[SparkSession]:
    """A session that is closed at the end, and its JVM with it. `more` are settings of Spark that override ours.

    `archive`: if there is none, make the next start faster than this one. `brief`: there is little to do, so code is
    compiled quickly instead of well.
    """
    master = master or DEFAULT_MASTER
    found = java.find()
    os.environ["JAVA_HOME"] = str(found.home)
    if is_here(master):
        # Otherwise Spark would take the first python3 on the path, which need not have pyarrow.
        os.environ["PYSPARK_PYTHON"] = sys.executable
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    else:
        # Other machines may have theirs elsewhere.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    given = dict(more or {})
    options, is_making = _java_options(found, archive, brief)
    chosen = settings(master, heap_mib=heap_mib) | {"spark.driver.extraJavaOptions": " ".join(options)} | given
    chosen[GIVEN] = " ".join(given)
    # They print a stack trace for each error; we print the error.
    for noisy in ("SQLQueryContextLogger", "py4j"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    logging.getLogger().addFilter(_is_not_of_py4j)
    conf = SparkConf(loadDefaults=False).setAll(list(chosen.items()))
    # Java and Spark print greetings on standard error. These are kept in case they fail.
    with tempfile.TemporaryFile() as said:
        try:
            gateway = launch_gateway(conf, {"stdout": said, "stderr": said})  # type: ignore[no-untyped-call]
            context = SparkContext(conf=conf, gateway=gateway)
        except Exception as error:
            said.seek(0)
            raise SparkFailed(f"Spark did not start: {_last_line(said.read()) or first_line(error)}") from error
    spark = SparkSession(context)
    try:
        _remember_helpers(context)
        if not is_here(master):
            context.addPyFile(_package_zip())
        yield spark
    finally:
        _close(spark, waits=not is_making)


class _Remembered:
    """A class of the JVM that is asked only once for each of its functions."""

    def __init__(self, found: Any) -> None:
        self._found = found

    def __getattr__(self, name: str) -> Any:
        member = getattr(self._found, name)
        setattr(self, name, member)
        return member


def _remember_helpers(context: SparkContext) -> None:
    """PySpark asks the JVM for these by name whenever it makes a column, and the JVM looks through all its jars."""
    functions, window = "org.apache.spark.sql.functions", "org.apache.spark.sql.expressions.Window"
    for name in ("functions", functions, window, "PythonUtils", "PythonSQLUtils"):
        setattr(context._jvm, name, _Remembered(getattr(context._jvm, name)))


def _close(spark: SparkSession, *, waits: bool) -> None:
    """Also ends the JVM, which Spark would leave until this process ends."""
    gateway = SparkContext._gateway
    # A JVM that has died already has nothing to say, and whoever noticed first has given the reason.
    with suppress(Exception):
        spark.stop()
    if gateway is None:
        return
    process = gateway.proc
    with suppress(Exception):
        gateway.shutdown()
    SparkContext._gateway = None
    SparkContext._jvm = None
    if process is not None:
        process.stdin.close()
        if waits:
            with suppress(Exception):
                process.wait(CLOSING_S)


def _java_options(found: java.Java, makes_archive: bool, brief: bool) -> tuple[list[str], bool]:
    """And whether the JVM will write an archive of what it has loaded, at its end."""
    # No warnings of the JVM about archives that do not fit. And space for all the code that Spark generates and keeps:
    # a JVM whose code cache is full may die, and with the quick compiler alone it would be 48 MiB.
    options = ["-Xlog:disable", "-Xlog:all=off", "-XX:ReservedCodeCacheSize=512m"]
    if brief:
        # Within a minute, the better compiler costs more than it saves: a sixth to a third of all CPU time.
        options.append("-XX:TieredStopAtLevel=1")
    with suppress(NoJava):
        archive = Archive(java.cache_folder(), found)
        if use := archive.to_use():
            return [*options, use], False
        if makes_archive and (make := archive.to_make()):
            return [*options, make], True
    return options, False


# -- small things -----------------------------------------------------------------------------------------------------


def _is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Part of it logs to the root logger, for example on Ctrl-C."""
    return "py4j" not in record.pathname


def _heap_mib() -> int:
    machine_mib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2**20
    return min(max(machine_mib // 4, HEAP_MIB_MIN), HEAP_MIB_MAX)


def _python_path() -> list[str]:
    """With the folder that holds this package first."""
    ours = str(Path(__file__).parents[3])
    others = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    return [ours, *(each for each in others if each and each != ours)]


def _package_zip() -> str:
    """This package's sources, for executors that do not have it."""
    from zipfile import ZipFile

    package = Path(__file__).parents[2]
    folder = tempfile.mkdtemp(prefix="famulus-")
    # Executors fetch it whenever they start, so it stays until the end.
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder) / "famulus.zip"
    with ZipFile(path, "w") as archive:
        for source in sorted([*package.rglob("*.py"), *package.rglob("*.toml")]):
            archive.write(source, source.relative_to(package.parent))
    return str(path)


def _last_line(said: bytes) -> str:
    lines = [line.strip() for line in said.decode(errors="replace").splitlines() if line.strip()]
    told = [line for line in lines if not line.startswith(("at ", "WARNING", "..."))]
    return next((line for line in told if "rror" in line or "xception" in line), told[-1] if told else "")
