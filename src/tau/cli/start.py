"""From flags to an opening: what every mode that runs the agent does first."""

from __future__ import annotations

import logging
import os
import sys

from tau.cli.flags import Given
from tau.cli.resume import chosen
from tau.host.opening import Opening, Wanted, Wishes, read_up
from tau.store.places import agent_dir


def opening(given: Given) -> Opening:
    level = logging.INFO if "verbose" in given.flags else logging.WARNING
    logging.basicConfig(stream=sys.stderr, level=level, format="tau: %(levelname)s: %(message)s")
    read = read_up(agent_dir(), wishes(given.flags))
    for warning in read.warnings:
        print(f"Warning: {warning}", file=sys.stderr)
    return read


def wishes(flags: dict[str, str]) -> Wishes:
    folder = flags.get("session-dir") or os.environ.get("PI_CODING_AGENT_SESSION_DIR")
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
            named=chosen(folder) if "resume" in flags else flags.get("session"),
            id=flags.get("session-id"),
            copy_of=flags.get("fork"),
            name=flags.get("name"),
        ),
    )


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
