"""Commands that start a broker, or prepare its folder."""
