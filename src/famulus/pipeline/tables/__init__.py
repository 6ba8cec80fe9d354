"""One module per table: a pure function from tables to a table, and a description of it."""
