"""Checks of bearer tokens (JWT) for OAUTHBEARER: unsecured tokens, signed tokens, and the keys of a token server."""
