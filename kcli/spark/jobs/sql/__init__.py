"""The job `sql`: SQL over topics."""
