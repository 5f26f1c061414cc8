"""The job `replay`: a range of records to another topic or cluster."""
