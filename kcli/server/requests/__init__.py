"""Requests: dispatch, context, quotas, and the conversion of errors to responses."""
