"""A SQL query over topics, its result to a topic."""
