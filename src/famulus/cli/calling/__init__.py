"""Commands that ask for a task, and that serve one."""
