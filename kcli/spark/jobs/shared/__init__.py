"""Common code of all jobs: declaration, options, errors, progress, and the run inside Spark."""
