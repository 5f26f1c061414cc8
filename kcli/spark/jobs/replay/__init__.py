"""A range of records to another topic or cluster."""
