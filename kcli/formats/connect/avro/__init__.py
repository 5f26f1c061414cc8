"""Values of Connect's data model in Avro, as Confluent's AvroConverter maps them."""
