"""What people type: one file per command."""
