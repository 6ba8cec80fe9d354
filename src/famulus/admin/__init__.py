"""What commands of an admin share: the request to a broker, drafts, differences, and the config in a file."""
