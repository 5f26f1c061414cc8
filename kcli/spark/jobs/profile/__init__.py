"""The job `profile`: statistics of topics."""
