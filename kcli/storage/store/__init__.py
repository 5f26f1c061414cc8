"""All logs of a node: its directories, how they are loaded, kept and deleted."""
