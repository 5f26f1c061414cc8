"""The built-in jobs of `kcli spark-submit`: a package with a module `job` for each, and what the jobs share."""
