"""The extension API: what `setup(pi)` receives, the hooks, and the process an extension runs in."""
