"""Requests: dispatch, context, quotas, and errors to bytes."""
