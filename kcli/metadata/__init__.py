"""The metadata that every node has of the cluster: the image, its changes, and the replay of records."""
