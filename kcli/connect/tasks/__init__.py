"""What runs in the process of a connector or a task."""
