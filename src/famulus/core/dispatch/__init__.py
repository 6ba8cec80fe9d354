"""The dispatcher's state, one noun per file."""
