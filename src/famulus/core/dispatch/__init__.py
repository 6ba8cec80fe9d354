"""The dispatcher's state, one noun a file."""
