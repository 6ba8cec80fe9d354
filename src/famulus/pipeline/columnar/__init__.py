"""What is computed of the journal's tasks column by column, with Arrow and numpy, an hour at a time. Knows no Spark.

A table with millions of rows of tasks is mostly the work of a few passes over them. Arrow reads them ten times as fast
as Spark does; and nothing of an hour has to be moved to find what belongs together, since its files are in one folder.
"""
