"""What a broker's steward decides: the config it shares with its peers, who they are, and what admins want."""
