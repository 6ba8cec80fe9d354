"""The only zmq in the house: the pump, sockets, loops, timers and authentication."""
