"""The meaning of every word that a user may meet."""
