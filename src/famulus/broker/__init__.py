"""The processes of one broker: supervisor, dispatcher, routers. Wiring only; every decision is in `core`."""
