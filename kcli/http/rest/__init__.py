"""REST APIs as Java's servers serve them: routes by templates, content negotiation, and errors as JSON (JAX-RS)."""
