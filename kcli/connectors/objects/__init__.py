"""The connectors of objects: files of a directory or of an object store."""
