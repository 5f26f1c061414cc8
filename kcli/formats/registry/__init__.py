"""What clients and servers of a schema registry share: its JSON documents, and the client with its serializers."""
