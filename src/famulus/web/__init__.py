"""The herald: what people see of a running broker, over HTTP."""
