"""The error of package commands."""

from __future__ import annotations


class PackageError(Exception):
    """A package cannot be installed, updated or removed; the message is the sentence that the user sees."""


class NewerInstalled(PackageError):
    """The installed version is newer than the one that an update would bring."""
