"""Fleets: thousands of agent tasks, here or on many machines, that survive the death of anything."""
