"""Checks bearer tokens (JWT) for OAUTHBEARER: unsecured tokens, and signed tokens with the keys of the server that
issues them.
"""
