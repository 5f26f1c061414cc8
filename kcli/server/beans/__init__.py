"""Beans: the state of a node under the names that operators know, over HTTP."""
