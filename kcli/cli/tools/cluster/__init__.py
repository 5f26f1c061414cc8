"""kafka-cluster, and the sub-commands of kcli that run a cluster on one machine."""
