"""Disk: settings, keys, models."""
