"""All I/O on the network: sockets, connections, listeners and waiting. Besides the lab, only this package uses zmq."""
