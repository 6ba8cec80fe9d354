"""The two ends' life cycles: client and worker."""
