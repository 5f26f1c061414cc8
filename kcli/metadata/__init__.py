"""What every node knows of the cluster: the image, its changes, and how records become both."""
