"""Commands that look at a running broker."""
