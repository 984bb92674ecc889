"""pi packages on disk: where they are installed, what they offer, and how they are installed, updated and removed.

Nothing here is imported unless settings or the command line name a package.
"""
