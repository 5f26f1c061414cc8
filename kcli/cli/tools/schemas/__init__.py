"""schemas: shows, checks and changes the schemas of a registry."""
