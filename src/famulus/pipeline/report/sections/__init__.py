"""The sections of the page, one file each: from tables to HTML."""
