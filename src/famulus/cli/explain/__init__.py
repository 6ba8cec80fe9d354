"""What every word means that a user may meet."""
