"""Files, or the rows of a database, to a topic."""
