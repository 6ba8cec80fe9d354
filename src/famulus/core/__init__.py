"""Every decision. No socket, clock, thread, file or log: time and random numbers come in, actions go out."""
