"""The frames and messages of Kafka's protocol: the table of APIs, headers, and codecs."""
