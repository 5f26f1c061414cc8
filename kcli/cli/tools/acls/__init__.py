"""kafka-acls: adds, removes and lists ACLs, and checks a right."""
