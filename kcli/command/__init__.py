"""Command lines of the tools and of Spark's jobs: declarations of options, their parser, help, examples, and
output of rows."""
