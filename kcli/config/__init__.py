"""Properties files, the tables of configuration keys, and the precedence of their values."""
