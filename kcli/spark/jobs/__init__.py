"""The built-in jobs of `kcli spark-submit`: a module each (`parse`, `plan`, `run`, `main`), and what they share."""
