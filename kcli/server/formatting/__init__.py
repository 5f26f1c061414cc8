"""The files that `kcli storage format` writes."""
