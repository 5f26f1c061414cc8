"""Plans and carries out moves of replicas, for `kcli reassign-partitions --balance` and for the console."""
