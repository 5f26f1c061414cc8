"""The cluster metadata that every node holds: the image, its changes, and the replay of records."""
