"""kcli trace: shows the path of one record from its producer through the broker to its consumers."""
