"""Where the journal and the tables are: places, files, hours."""
