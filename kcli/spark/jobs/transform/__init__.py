"""The job `transform`: runs a SQL query over topics, and writes the result to a topic."""
