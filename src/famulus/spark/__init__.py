"""Spark in the network: a service whose function is a Spark job.

from famulus.spark import serve
serve(spark, "score", score)
"""

from famulus.spark.serve import serve

__all__ = ["serve"]
