"""What a broker does, as people see it. Knows no sockets and no clock."""
