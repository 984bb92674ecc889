"""Bash command lines: syntax tree, words, and which programs a line runs."""
