"""The built-in jobs of `kcli spark-submit`.

Each job is a package with a module `job`; `shared` and `records` serve all jobs.
"""
