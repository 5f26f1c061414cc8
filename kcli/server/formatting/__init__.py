"""Writes the files of new log directories, for `kcli storage format`."""
