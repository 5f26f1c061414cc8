"""Properties files, the tables of keys, and the precedence of what they say."""
