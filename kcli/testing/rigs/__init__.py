"""Parts of tests: logs made by hand, servers that answer from a script, the number of examples of a property."""
