"""A journal as a network would have written it, made by Spark, with truths planted in it that the tables must find.

    from famulus.lab import synth
    truths = synth.make(spark, "journal", synth.Plan(tasks=1_000_000, hours=24, seed=7))

The same plan makes the same journal, on any machine and with any number of cores.
"""

from famulus.lab.synth.making import make
from famulus.lab.synth.plan import TRUTHS, Plan, Truths

__all__ = ["TRUTHS", "Plan", "Truths", "make"]
