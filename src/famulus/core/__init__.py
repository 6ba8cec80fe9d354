"""All decisions. No sockets, clocks, threads, files or logs: time and random numbers come in, actions go out."""
