"""The built-in jobs of `kcli spark-submit`: a module with a `JOB` for each, and what they share."""
