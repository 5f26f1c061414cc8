"""The twin: one table of requests of every served API and version, sent to two servers, and their answers compared."""
