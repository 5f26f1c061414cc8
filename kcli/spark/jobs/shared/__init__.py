"""Common code of all jobs: how a job is declared, its options, errors and progress, and how it runs inside Spark."""
