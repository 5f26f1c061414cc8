"""Values of Connect's data model in JSON with a JSON Schema, as Confluent's JsonSchemaConverter maps them."""
