"""What can be known about jobs of Spark from outside: their checkpoints, and Spark's REST API."""
