"""OpenTelemetry: traces, metrics and logs of sessions, for those who ask for them."""
