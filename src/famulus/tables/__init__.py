"""The pipeline's tables as others read them: without Spark."""
