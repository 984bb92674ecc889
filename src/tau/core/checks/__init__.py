"""Checks: JSON Schema, permissions, secrets, images, exit codes."""
