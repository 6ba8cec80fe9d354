"""Commands that send tasks, and that serve them."""
