"""Finds the Node program that runs TypeScript extensions."""

from __future__ import annotations

import os

REQUIRED = "22.18"


class NodeMissing(Exception):
    """There is no Node that may be used; the text says why."""


def find_node(setting: str | bool | None) -> str:
    """Return the path of Node: the setting `extensionHost.node`, or `node` on PATH. Raises NodeMissing.

    Its version is checked by the host process itself, which is started anyway.
    """
    if setting is False:
        raise NodeMissing("Extensions in TypeScript are turned off by the setting extensionHost.node")
    if isinstance(setting, str) and setting:
        path = os.path.expanduser(setting)
        if os.path.isabs(path) and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
        raise NodeMissing(
            f"Extensions in TypeScript need Node; the setting extensionHost.node is no program: {setting}"
        )
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        path = os.path.join(folder, "node")
        if os.path.isabs(path) and os.access(path, os.X_OK) and os.path.isfile(path):
            return path
    raise NodeMissing(f"Extensions in TypeScript need Node {REQUIRED} or later; there is no node on PATH")
