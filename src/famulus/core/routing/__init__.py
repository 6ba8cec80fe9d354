"""What a message means."""
