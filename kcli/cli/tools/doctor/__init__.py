"""kcli doctor: finds out why a client cannot use a cluster, and what an operator should change in a cluster."""
