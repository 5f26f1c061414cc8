"""The twin: a table of requests of every served API and version. The requests are sent to two servers, and their
answers are compared."""
