"""The job `export`: writes topics to files and tables."""
