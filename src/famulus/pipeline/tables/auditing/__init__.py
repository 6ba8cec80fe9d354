"""The rules of the audit: a file for each thing that they look at. Each rule gives rows of `entry`."""
