"""Common code of all jobs: declaration, options, errors, progress, and running inside Spark."""
