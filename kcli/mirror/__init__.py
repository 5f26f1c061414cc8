"""MirrorMaker 2 in its dedicated mode: the driver, which runs a worker of Kafka Connect for each flow."""
