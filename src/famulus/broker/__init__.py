"""The processes of one broker: supervisor, dispatcher, routers, steward, scribe. Wiring only; `core` decides."""
