"""Whether a query only reads our tables: decided by its plan, before Spark looks at anything that it names.

Analysing a plan opens the files that it names. So the plan is judged as it was parsed: each of its parts has to be one
that is allowed, and each table one that is ours. What comes out of the analysis is looked at once more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import accumulate
from typing import Any, Final

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from famulus.errors import QueryError
from famulus.pipeline.serve.allowed import EXPRESSIONS, FUNCTIONS, LEAVES, PLANS

CHARS_MAX: Final = 20_000
PARTS_MAX: Final = 2_000
#: Spark's parser takes the longer for a bracket the more of them are open, and nothing could stop it.
DEPTH_MAX: Final = 100


def tables_in(spark: SparkSession, sql: str, ours: Collection[str]) -> set[str]:
    """The tables that a query reads. Raises a QueryError if it could do anything else. Executes nothing."""
    if len(sql) > CHARS_MAX:
        raise QueryError(f"the query has {len(sql):,} characters, and {CHARS_MAX:,} at most are read")
    if _depth(sql) > DEPTH_MAX:
        raise QueryError(f"the query is nested too deeply: {DEPTH_MAX} brackets in each other at most")
    try:
        parsed = spark._jsparkSession.sessionState().sqlParser().parsePlan(sql)
    except (PySparkException, Py4JError) as error:
        raise QueryError(_first_line(error)) from None
    found = _Parts()
    found.visit(parsed)
    named = {name: name.lower() for name in found.tables}
    for name, lower in named.items():
        if lower not in ours and lower not in found.named_here:
            raise QueryError(f"there is no table {name}; there are {', '.join(sorted(ours))}")
    return {lower for lower in named.values() if lower in ours}


def _depth(sql: str) -> int:
    """How many brackets are open at once, those in texts included."""
    return max(accumulate((char in "([") - (char in ")]") for char in sql), default=0)


def check_analysed(frame: DataFrame) -> None:
    """A second lock, should the first one ever be open: rows come from the views of our tables only."""
    for leaf in _each(frame._jdf.queryExecution().analyzed().collectLeaves()):
        kind = _kind(leaf)
        # A table of a catalog of Spark; ours are in none.
        if kind not in LEAVES or (kind == "LogicalRelation" and leaf.catalogTable().isDefined()):
            raise QueryError(f"a query may not read a {kind}")


class _Parts:
    """All parts of a plan, one after the other: it may be nested more deeply than Python calls functions."""

    def __init__(self) -> None:
        self.tables: set[str] = set()
        #: What the query itself gives a name, by WITH.
        self.named_here: set[str] = set()
        self._count = 0
        self._plans: list[Any] = []
        self._expressions: list[Any] = []

    def visit(self, plan: Any) -> None:
        self._plans.append(plan)
        while self._plans or self._expressions:
            self._count += 1
            if self._count > PARTS_MAX:
                raise QueryError(f"the query has more than {PARTS_MAX:,} parts")
            if self._plans:
                self._visit_plan(self._plans.pop())
            else:
                self._visit_expression(self._expressions.pop())

    def _visit_plan(self, plan: Any) -> None:
        kind = _kind(plan)
        if kind not in PLANS:
            raise QueryError(f"{_SAID.get(kind, kind)} is not allowed: a query is a single SELECT over the tables")
        if kind == "UnresolvedRelation":
            self._visit_table(plan)
        elif kind == "UnresolvedWith":
            if plan.allowRecursion():
                raise QueryError("WITH RECURSIVE is not allowed")
            for pair in _each(plan.cteRelations()):
                self.named_here.add(pair._1().lower())
                self._plans.append(pair._2())
        self._plans += _each(plan.children())
        self._expressions += _each(plan.expressions())

    def _visit_table(self, relation: Any) -> None:
        parts = list(_each(relation.multipartIdentifier()))
        name = ".".join(parts)
        if len(parts) != 1:
            raise QueryError(f"{name} is no table of ours: files and other catalogs are not allowed")
        if not relation.options().isEmpty():
            raise QueryError(f"{name}: options of a table are not allowed")
        self.tables.add(name)

    def _visit_expression(self, expression: Any) -> None:
        kind = _kind(expression)
        if kind not in EXPRESSIONS:
            raise QueryError(f"the expression {kind} is not allowed")
        if kind in ("UnresolvedFunction", "UnresolvedGenerator"):
            self._visit_function(expression)
        elif kind == "UnresolvedAttribute":
            name = ".".join(_each(expression.nameParts()))
            if name.lower() in _FUNCTIONS_LIKE_COLUMNS:
                raise QueryError(f"the function {name} is not allowed")
        elif kind in _SUBQUERIES:
            self._plans.append(expression.plan())
        self._expressions += _each(expression.children())

    def _visit_function(self, expression: Any) -> None:
        if _kind(expression) == "UnresolvedGenerator":
            name = expression.name().unquotedString()
        else:
            name = ".".join(_each(expression.nameParts()))
        if name.lower() not in FUNCTIONS:
            raise QueryError(f"the function {name} is not allowed")


#: Where no column is named like that. They tell who runs this.
_FUNCTIONS_LIKE_COLUMNS: Final = frozenset({"current_user", "session_user", "user"})
_SUBQUERIES: Final = frozenset({"Exists", "LateralSubquery", "ListQuery", "ScalarSubquery"})
#: Parts whose names say little to whoever wrote the SQL.
_SAID: Final = {
    "CompoundBody": "a script",
    "InsertIntoStatement": "INSERT",
    "RelationTimeTravel": "a version of a table",
    "ScriptTransformation": "TRANSFORM",
    "SetCommand": "SET",
    "UnresolvedHint": "a hint",
    "UnresolvedTableValuedFunction": "a function as a table",
}


def _kind(part: Any) -> str:
    """The name of its class, of which no two that are allowed are the same."""
    name: str = part.getClass().getName()
    package, _, own = name.rpartition(".")
    return own if package.startswith("org.apache.spark.sql.") else name


def _each(sequence: Any) -> Iterator[Any]:
    return (sequence.apply(place) for place in range(sequence.size()))


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines()]
    told = next((line for line in lines if line and not line.startswith("An error occurred while calling")), "")
    if "StackOverflowError" in told:
        return "the query is nested too deeply"
    return told.removeprefix(": ").partition(" SQLSTATE:")[0].partition("] ")[2] or told
