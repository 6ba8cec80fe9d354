"""Commands that read the journal."""
