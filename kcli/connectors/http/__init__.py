"""HTTP connectors: the sink sends records to a URL, and the source polls a URL."""
