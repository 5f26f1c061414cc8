"""kcli trace: the way of one record from its producer through the broker to its consumers."""
