"""Inputs that no honest side would send, for handshakes and sealed streams: what is changed must not be accepted."""
