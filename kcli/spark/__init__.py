"""Spark at the service of topics: a Python data source and sink, the built-in jobs, the spark-submit wrapper."""
