"""The report: one page of HTML that tells what the pipeline's tables say, complete in itself.

    from famulus.pipeline import report
    report.write("tables", "report.html")

Knows no Spark: the tables that it reads are small, and it reads them in bounded pieces.
"""

from famulus.pipeline.report.page import write

__all__ = ["write"]
