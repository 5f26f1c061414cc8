"""The built-in jobs of `kcli spark-submit`.

Each job is a package with a module `job`. The packages `shared` and `records` contain code that several jobs use.
"""
