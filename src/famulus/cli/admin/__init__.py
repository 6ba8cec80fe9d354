"""Commands for admins: who they are, and what they do to brokers."""
