"""The job `ingest`: files, or the rows of a database, to a topic."""
