"""Text: truncation, diffs, edits, globs, terminal sequences, frontmatter."""
