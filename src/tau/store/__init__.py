"""Files on disk: settings, keys, trust, sessions, skills, templates."""
