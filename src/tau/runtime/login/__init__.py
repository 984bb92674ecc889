"""Logins: API keys and OAuth tokens for providers, stored in pi's auth.json.

No user interface: the caller asks questions, shows addresses and prints results.
"""
