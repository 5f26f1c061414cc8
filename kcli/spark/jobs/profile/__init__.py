"""The job `profile`: computes statistics of topics."""
