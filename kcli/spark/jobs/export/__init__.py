"""Topics to files and tables."""
