"""The job `replay`: copies a range of records to another topic or cluster."""
