"""Reads, writes and processes topics with Spark: a data source and sink, built-in jobs, streams, and spark-submit."""
