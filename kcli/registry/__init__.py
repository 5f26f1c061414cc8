"""A schema registry on a cluster: its rules, its store in a compacted topic, and its REST API."""
