"""The job `sql`: runs SQL over topics."""
