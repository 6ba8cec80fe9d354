"""Services with types: what a task and its answer are, as values, and how they travel. Knows no sockets."""
