"""All logs of a node: its directories, and how logs are loaded, maintained and deleted."""
