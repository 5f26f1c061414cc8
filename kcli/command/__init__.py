"""Command lines, for the tools of kcli and for the jobs of Spark: declared options, their reader, help, and rows."""
