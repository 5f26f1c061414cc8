"""The job `transform`: a SQL query over topics whose result is written to a topic."""
