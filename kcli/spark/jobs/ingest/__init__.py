"""The job `ingest`: writes files, or the rows of a database, to a topic."""
