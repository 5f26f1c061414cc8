"""A request on its way: dispatch, context, quotas, errors to bytes."""
