"""Parts of tests: logs made by hand, servers that answer from a script."""
