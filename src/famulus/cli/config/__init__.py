"""Commands that show and change the config."""
