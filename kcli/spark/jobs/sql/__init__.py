"""SQL over topics."""
