"""The only package with zmq in it: the pump, sockets, loops, timers and authentication."""
