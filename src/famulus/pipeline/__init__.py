"""What the journal tells: tables, a report and findings, made with Spark."""
