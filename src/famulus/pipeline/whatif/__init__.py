"""What waits would be with another load, or other slots. Knows no files and no Spark."""
