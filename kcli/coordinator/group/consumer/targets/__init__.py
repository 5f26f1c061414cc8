"""From targets to assignments: when they are computed, and how a member moves to its own."""
