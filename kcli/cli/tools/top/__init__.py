"""kcli top."""
