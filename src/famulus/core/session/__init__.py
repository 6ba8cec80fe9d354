"""The life cycles of the two ends: client and worker."""
