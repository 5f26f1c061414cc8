"""What kcli ships for the tests of its users: brokers and clusters in processes, and fixtures for pytest."""
