"""Requests to the other workers of a group, over their REST APIs."""
