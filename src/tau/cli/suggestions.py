"""Error messages for unknown flags and commands, with suggestions."""

from __future__ import annotations

from collections.abc import Sequence
from difflib import get_close_matches

from tau.cli.flags import FLAGS
from tau.errors import UsageError

FLAG_WORDS = {"help": "--help", "version": "--version", "models": "--list-models", "resume": "--resume"}


def unknown_flags_error(unknown: Sequence[str]) -> str:
    """One line for each unknown flag."""
    return "\n".join(f"Unknown option: {_name(word)}.{_suggestion(word)}" for word in unknown)


def _name(word: str) -> str:
    """The flag without its value, which may be a secret."""
    return word.partition("=")[0]


def _suggestion(word: str) -> str:
    names = [f"--{flag.name}" for flag in FLAGS]
    similar = get_close_matches("--" + _name(word).strip("-").lower(), names, n=2, cutoff=0.75)
    return f" Did you mean {' or '.join(similar)}?" if similar else " Put a message that starts with a dash after --."


def check_command(program: str, word: str, package_commands: Sequence[str], commands: Sequence[str]) -> None:
    """Raise UsageError if a word is, or nearly is, a command that cannot be run like this."""
    if word in commands:
        raise UsageError(f'"{word}" is a command of tau. Run: tau {word}. {_as_prompt(program, word)}')
    if word in FLAG_WORDS:
        raise UsageError(f'There is no command "{word}". Did you mean {program} {FLAG_WORDS[word]}?')
    if similar := get_close_matches(word.lower(), commands, n=1, cutoff=0.75):
        name = program if similar[0] in package_commands else "tau"
        raise UsageError(f'There is no command "{word}". Did you mean {name} {similar[0]}? {_as_prompt(program, word)}')


def _as_prompt(program: str, word: str) -> str:
    return f"To send the word to the model: {program} -p {word}"
