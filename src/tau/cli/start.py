"""From flags to an opening: what every mode that runs the agent does first."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path

from tau.cli.flags import Given
from tau.cli.resume import chosen
from tau.host.opening import Opening, Wanted, Wishes, read_settings, read_up
from tau.store.places import agent_dir
from tau.store.sought import Requested


def opening(given: Given) -> Opening:
    level = logging.INFO if "verbose" in given.flags else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="tau: %(levelname)s: %(message)s")
    read = read_up(agent_dir(), wishes(given))
    for warning in read.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    if not read.extensions:  # else one of them may know it
        warn_of_unknown(given)
    if read.settings.http_proxy:
        use_proxy(read.settings.http_proxy)
    return read


def warn_of_unknown(given: Given) -> None:
    for word in given.unknown:
        print(f"Warning: unknown option {word} ignored", file=sys.stderr)


def use_proxy(address: str) -> None:
    """For models and for commands, as if the environment had said it; where it says something, that counts."""
    for name in ("HTTP_PROXY", "HTTPS_PROXY"):
        if not os.environ.get(name) and not os.environ.get(name.lower()):
            os.environ[name] = address


def wishes(given: Given) -> Wishes:
    flags, lists = given.flags, given.lists
    folder = flags.get("session-dir") or os.environ.get("PI_CODING_AGENT_SESSION_DIR")
    approve = False if "no-approve" in flags else True if "approve" in flags else None
    return Wishes(
        model=flags.get("model"),
        provider=flags.get("provider"),
        models=_list(flags["models"]) if "models" in flags else (),
        thinking=flags.get("thinking"),
        key=flags.get("api-key"),
        tools=_list(flags["tools"]) if "tools" in flags else () if "no-tools" in flags else None,
        script=flags.get("script"),
        session=Wanted(
            kept="no-session" not in flags,
            folder=folder,
            last="continue" in flags,
            named=_resumed(folder, approve) if "resume" in flags else flags.get("session"),
            id=flags.get("session-id"),
            copy_of=flags.get("fork"),
            name=flags.get("name"),
        ),
        approve=approve,
        extensions=lists.get("extension", ()),
        only_these_extensions="no-extensions" in flags,
        flags=dict(_unknown(word) for word in given.unknown),
        resources=Requested(
            system=flags.get("system-prompt"),
            appended=lists.get("append-system-prompt", ()),
            skills=lists.get("skill", ()),
            templates=lists.get("prompt-template", ()),
            no_skills="no-skills" in flags,
            no_templates="no-prompt-templates" in flags,
            no_context="no-context-files" in flags,
        ),
    )


def _unknown(word: str) -> tuple[str, bool | str]:
    name, equals, value = word.lstrip("-").partition("=")
    return name, value if equals else True


def _resumed(folder: str | None, approve: bool | None) -> str:
    _, layers, _ = read_settings(agent_dir(), Path.cwd(), approve)
    return chosen(folder or layers.settings.session_dir)


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
