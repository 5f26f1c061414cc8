"""The connectors of files: each line is a record."""
