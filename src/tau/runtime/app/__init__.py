"""Start-up: options, configuration, the session factory, process life cycle."""
