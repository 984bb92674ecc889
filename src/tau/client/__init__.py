"""A door of the other kind: drives an agent, tau or pi, in a process of its own."""
