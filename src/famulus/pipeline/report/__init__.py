"""The report: one self-contained HTML page that tells what the pipeline's tables say.

    from famulus.pipeline import report
    report.write("tables", "report.html")

Needs no Spark: the tables that it reads are small, and it reads them in bounded pieces.
"""

from famulus.pipeline.report.page import write

__all__ = ["write"]
