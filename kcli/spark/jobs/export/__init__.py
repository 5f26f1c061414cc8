"""The job `export`: topics to files and tables."""
