"""What `kcli storage format` writes."""
