"""The engine of a worker: it runs connectors and tasks in processes of their own."""
