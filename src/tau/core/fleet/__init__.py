"""Fleets: which task runs where and when, and what the loss of a worker means."""
