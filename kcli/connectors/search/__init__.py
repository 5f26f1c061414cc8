"""The connector of search engines: Elasticsearch, OpenSearch and others that have the _bulk API."""
