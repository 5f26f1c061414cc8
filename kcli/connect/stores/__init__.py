"""Where a worker keeps configurations, statuses and source offsets."""
