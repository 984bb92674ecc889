"""Extensions: registry, hooks, child processes, dialogs."""
