"""kafka-acls: adds, removes and lists ACLs, and checks whether ACLs allow an operation."""
