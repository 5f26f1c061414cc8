"""The built-in jobs of `kcli spark-submit`. Each module is a job file of its own: Spark runs it as a script."""
