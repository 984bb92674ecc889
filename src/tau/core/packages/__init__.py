"""pi packages, the pure part: sources, versions, and filters of what a package offers."""
