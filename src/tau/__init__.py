"""tau: a coding agent for programs.

Importing this loads nothing else; see docs/house.md for what is where.
"""

__version__ = "0.1.0"
