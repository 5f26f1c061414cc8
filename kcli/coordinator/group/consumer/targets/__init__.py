"""The targets of members: when targets are computed, and how a member moves to its target."""
