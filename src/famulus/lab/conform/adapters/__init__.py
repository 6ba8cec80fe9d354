"""Our own client and worker as commands that can be tried."""
