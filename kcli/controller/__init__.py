"""The metadata of a cluster: what records say (image, delta), and which records an operation needs. Pure."""
