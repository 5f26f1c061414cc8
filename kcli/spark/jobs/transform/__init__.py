"""The job `transform`: a SQL query over topics, its result to a topic."""
