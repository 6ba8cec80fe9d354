"""Every decision. No socket, clock, thread, file, randomness or log: time and chance come in, actions go out."""
