"""One session: input, operations, navigation, user bash commands."""
