"""settings.json of the user and of a project: read with defaults; the user's is changed by a merge under a lock.

A file that cannot be read, or has invalid values, is reported and left as it is: the program uses defaults for the
invalid values and does not write to the file. Names of older versions of pi are understood and not rewritten.
Comments and trailing commas are accepted and survive a change.

trust.py decides if a project's file may be read at all.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from tau.records.base import BadRecord, Value, decode, encode, parse
from tau.records.settings import (
    COMPAT_NAMES,
    LIMIT_SETTINGS,
    PATH_SETTINGS,
    RESOURCE_LISTS,
    STRICTER_ONLY,
    USER_ONLY_SETTINGS,
    Settings,
)
from tau.store.files import LOCK_TIMEOUT_S, STALE_LOCK_S, locked, replace_file
from tau.store.paths import is_storable
from tau.store.trusted_files import read_bound
from tau.wire.comments import strip_comments
from tau.wire.position import line_in, line_of

logger = logging.getLogger(__name__)
BOM = b"\xef\xbb\xbf"
Scope = Literal["user", "project"]


class SettingsFile:
    """One settings file. `bound` is Decision.content for a project that is trusted by content."""

    def __init__(self, path: Path, bound: Mapping[str, str] | None = None) -> None:
        self.path = path
        self._bound = bound
        self.content: dict[str, Any] = {}  # the valid settings of the file
        self.problems: list[str] = []
        self.is_readable = True  # False: it is no JSON object, and nothing is saved in it
        self.unknown_limits: list[str] = []  # the problems because of which a limit may be missing

    def read(self) -> Settings:
        """Read the file. An invalid value falls back to its default."""
        self.content, self.problems, self.unknown_limits, self.is_readable = {}, [], [], True
        try:
            text, content = self._read()
        except BadRecord as error:
            self.is_readable = False
            self.problems.append(f"{self.path}{error} The file is ignored, and no settings are saved.")
            if self._mentions_limits():
                self.unknown_limits.append(f"{self.path}{error}")
            return Settings()
        self.content = migrate_names(content)
        while True:
            try:
                return _checked(self.content)
            except BadRecord as error:
                place, _, what = str(error).partition(": ")
                written = _written(place, content)
                line = line_of(text, written)
                self.problems.append(f"{self.path}:{line}: {written}: {what}. The default is used for it.")
                if place.partition(".")[0] in LIMIT_SETTINGS:
                    self.unknown_limits.append(f"{self.path}:{line}: {written}: {what}.")
                if not _removed(self.content, place):
                    self.content = {}

    def change(self, changes: dict[str, Any]) -> None:
        """Merge `changes` into the current file; other values stay, also invalid ones. A file that is no JSON object is
        left alone. Blocks; raises OSError if it cannot be written.
        """
        with locked(self.path):
            try:
                text, content = self._read()
            except BadRecord as error:
                logger.warning("settings not saved: %s%s", self.path, error)
                return
            merged = merge(content, changes)
            if merged != content:
                replace_file(self.path, self._changed_text(text, changes) or as_text(merged))

    def change_list(
        self,
        name: str,
        edit: Callable[[list[Any]], list[Any]],
        announce: Callable[[bytes, list[Any]], None] | None = None,
    ) -> bool:
        """Replace a list by what `edit` makes of it, under the lock; False if that is the same.

        A lock that a killed program left is waited for until it is stale. `announce` gets the new content of the file
        and the new list before they are written.
        Raises BadRecord if the file is damaged, or OSError; then nothing has changed.
        """
        with locked(self.path, STALE_LOCK_S + LOCK_TIMEOUT_S):
            try:
                text, content = self._read()
            except BadRecord as error:
                raise BadRecord(f"{self.path}{error}") from None
            before = content.get(name, [])
            if not isinstance(before, list):
                raise BadRecord(f"{self.path}: {name} is not a list.")
            after = edit(list(before))
            if after == before:
                return False
            data = self._changed_text(text, {name: after}) or as_text({**content, name: after})
            if announce is not None:
                announce(data, after)
            replace_file(self.path, data)
            return True

    def _changed_text(self, plain: str, changes: dict[str, Any]) -> bytes | None:
        """The file with these changes, if it has comments or trailing commas that must survive; else None."""
        text = self.path.read_bytes().removeprefix(BOM).decode() if plain else ""
        if text == plain:
            return None
        from tau.wire.json_edit import set_members

        return set_members(text, changes).encode("utf-8", "backslashreplace")

    def _mentions_limits(self) -> bool:
        try:
            data = read_bound(self.path, self._bound)
        except OSError:
            return False
        return any(f'"{name}"'.encode() in data for name in LIMIT_SETTINGS)

    def _read(self) -> tuple[str, dict[str, Any]]:
        """Return the file as strict JSON, and its content. Raises BadRecord; its text follows the path."""
        try:
            data = read_bound(self.path, self._bound).removeprefix(BOM)
        except FileNotFoundError:
            return "", {}
        except OSError as error:
            raise BadRecord(f" cannot be read: {error.strerror or error}.") from None
        if not data.strip():
            return "", {}
        data, content = _parse(data)
        if not isinstance(content, dict):
            raise BadRecord(":1 is not a JSON object.")
        return data.decode(), content


def _checked(content: Mapping[str, Any]) -> Settings:
    """Raises BadRecord, also for a path that cannot be one."""
    settings = decode(Settings, encode(content))
    for place in PATH_SETTINGS:
        if not _is_storable(_values_at(content, place)):
            raise BadRecord(f"{place}: a path contains neither a null character nor a lone surrogate")
    return settings


def _is_storable(value: Any) -> bool:
    if isinstance(value, str):
        return is_storable(value)
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return all(map(_is_storable, inside))


def _parse(data: bytes) -> tuple[bytes, Any]:
    """Parse JSON with or without comments and trailing commas, and return it as strict JSON too."""
    with suppress(BadRecord):
        return data, parse(data)
    try:
        plain = strip_comments(data.decode()).encode()
        return plain, parse(plain)
    except UnicodeDecodeError:
        raise BadRecord(" is not valid UTF-8.") from None
    except BadRecord as error:
        raise BadRecord(f":{line_in(str(error))} is not valid JSON: {error}.") from None


class Layers(Value):
    """The user's settings, overridden by a project's."""

    settings: Settings  # resource lists hold absolute paths, those of the project first
    lists: dict[Scope, dict[str, list[Any]]]  # the same lists by scope
    origins: dict[str, Path]  # "retry.maxRetries": the file that sets it; settings not in here have their defaults
    problems: list[str]
    packages: dict[Scope, list[Any]] = {}  # the lists `packages` as they are written
    unknown_limits: list[str] = []


def read_layers(
    user: SettingsFile, project: SettingsFile | None, defaults: Mapping[str, Any] = MappingProxyType({})
) -> Layers:
    """Read both files. `project` is None unless it is trusted; `defaults` apply where neither sets a value."""
    merged: dict[str, Any] = dict(defaults)
    lists: dict[Scope, dict[str, list[Any]]] = {"project": {}, "user": {}}
    origins: dict[str, Path] = {}
    problems: list[str] = []
    unknown_limits: list[str] = []
    packages: dict[Scope, list[Any]] = {}
    files: list[tuple[Scope, SettingsFile | None]] = [("user", user), ("project", project)]
    for scope, file in files:
        if file is None:
            continue
        file.read()
        content = {name: _with_absolute_paths(name, value, file.path.parent) for name, value in file.content.items()}
        problems += file.problems
        unknown_limits += file.unknown_limits
        packages[scope] = file.content.get("packages", [])
        if scope == "project":
            for name in _refused(content, merged):
                content = _without(content, name)
                problems.append(f"{file.path}: {name}: only your own settings.json can set this")
        lists[scope] = {name: content[name] for name in RESOURCE_LISTS if name in content}
        combined = {name: [*added, *merged.get(name, ())] for name, added in lists[scope].items()}
        merged = {**merge(merged, content), **combined}
        origins |= {place: file.path for place in _places(content)}
    return Layers(decode(Settings, encode(merged)), lists, origins, problems, packages, unknown_limits)


def migrate_names(content: dict[str, Any]) -> dict[str, Any]:
    """Translate older names of tau, and names of older and newer versions of pi, into the current ones."""
    content = group_compat(content)
    if "queueMode" in content:
        content.setdefault("steeringMode", content["queueMode"])
    if isinstance(content.get("websockets"), bool):
        content.setdefault("transport", "websocket" if content["websockets"] else "sse")
    if isinstance(old := content.get("skills"), dict):
        content["skills"] = old.get("customDirectories") or []
        if "enableSkillCommands" in old:
            content.setdefault("enableSkillCommands", old["enableSkillCommands"])
    if isinstance(retry := content.get("retry"), dict):
        provider = retry.get("provider")
        newer = provider.get("maxRetryDelayMs") if isinstance(provider, dict) else None
        # The records use the older name, maxDelayMs; newer versions of pi write the other one.
        content["retry"] = dict(retry) if newer is None else {**retry, "maxDelayMs": newer}
    return content


def group_compat(content: Mapping[str, Any]) -> dict[str, Any]:
    """Move settings of `compat` that have their older place, at the top level, into it. A value in `compat` wins."""
    flat = {name: content[name] for name in COMPAT_NAMES if name in content}
    grouped = content.get("compat", {})
    if not flat or not isinstance(grouped, dict):
        return dict(content)
    return {**{name: value for name, value in content.items() if name not in flat}, "compat": {**flat, **grouped}}


def _written(place: str, content: dict[str, Any]) -> str:
    """Return the name that the file itself uses for a setting: the inverse of `migrate_names`."""
    name = place.partition("[")[0]
    group, _, inner = name.partition(".")
    if group == "compat" and inner and inner not in content.get(group, {}):
        return place.removeprefix("compat.")
    if name == "steeringMode" and name not in content:
        return "queueMode"
    if name == "skills" and isinstance(content.get(name), dict):
        return place.replace(name, "skills.customDirectories")
    if name == "enableSkillCommands" and name not in content:
        return "skills.enableSkillCommands"
    if name == "retry.maxDelayMs" and isinstance(content["retry"].get("provider"), dict):
        return "retry.provider.maxRetryDelayMs"
    return place


def merge(content: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """Merge `changes` into `content`: nested objects are merged one level deep, everything else is replaced."""
    merged = dict(content)
    for key, value in changes.items():
        old = merged.get(key)
        merged[key] = {**old, **value} if isinstance(old, dict) and isinstance(value, dict) else value
    return merged


def as_text(content: dict[str, Any]) -> bytes:
    try:
        return json.dumps(content, indent=2, ensure_ascii=False).encode()
    except UnicodeEncodeError:  # a lone surrogate: JSON can carry it only escaped
        return json.dumps(content, indent=2).encode()


def _removed(content: dict[str, Any], place: str) -> bool:
    """Remove the value at a place such as "retry.maxRetries" or "enabledModels[1]" only. False if it is missing."""
    *above, last = place.partition("[")[0].split(".")
    for name in above:
        inside = content.get(name)
        if not isinstance(inside, dict):
            return content.pop(name, None) is not None
        content[name] = content = dict(inside)
    return last in content and (content.pop(last), True)[1]


def _refused(content: Mapping[str, Any], of_user: Mapping[str, Any]) -> list[str]:
    """Return the settings that a project may not set."""
    refused = [name for name in USER_ONLY_SETTINGS if _values_at(content, name)]
    looser = [name for name in STRICTER_ONLY if _values_at(content, name) == [False]]
    return refused + [name for name in looser if _values_at(of_user, name) == [True]]


def _values_at(content: Mapping[str, Any], place: str) -> list[Any]:
    """Return the value at a place such as "sandbox" or "retry.maxRetries" in a list, empty if there is none."""
    name, _, inner = place.partition(".")
    within = content.get(name) if inner else content
    return [within[inner or name]] if isinstance(within, Mapping) and (inner or name) in within else []


def _without(content: dict[str, Any], place: str) -> dict[str, Any]:
    name, _, inner = place.partition(".")
    if inner:
        return {**content, name: {key: value for key, value in content[name].items() if key != inner}}
    return {key: value for key, value in content.items() if key != name}


def _places(content: dict[str, Any]) -> list[str]:
    """Return the names of settings; for nested ones, "outer.inner"."""
    return [
        place
        for name, value in content.items()
        for place in ([f"{name}.{inner}" for inner in value] if isinstance(value, dict) else [name])
    ]


# Resource lists


def _with_absolute_paths(name: str, value: Any, folder: Path) -> Any:
    if name not in RESOURCE_LISTS or not isinstance(value, list):
        return value
    if name != "packages":
        return [_absolute(entry, folder) for entry in value]
    return [
        {**entry, "source": _local(entry.get("source"), folder)} if isinstance(entry, dict) else _local(entry, folder)
        for entry in value
    ]


def _absolute(entry: str, folder: Path) -> str:
    """Make the path of a list entry absolute; a sign (`!pattern`, `-path`, `+path`) stays in front."""
    prefix = entry[:1] if entry[:1] in ("!", "+", "-") else ""
    return prefix + os.path.normpath(folder / os.path.expanduser(entry.removeprefix(prefix)))


def _local(source: Any, folder: Path) -> Any:
    """Make a local source absolute. npm:name and git:host/path are not paths."""
    return _absolute(source, folder) if isinstance(source, str) and source.startswith((".", "/", "~")) else source
