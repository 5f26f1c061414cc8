"""JDBC source and sink connectors on SQLAlchemy, with the configuration and the offsets of Confluent's connectors."""
