"""Two ranges of time, or two sets of workers, service by service. Knows no Spark."""
