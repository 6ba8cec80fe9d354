"""The commands of the laboratory: one file per command."""
