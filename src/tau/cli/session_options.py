"""Session options from command-line flags, for every mode that runs the agent."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from tau.cli.flags import ParsedArguments
from tau.errors import SessionFolderGone, TauError, UsageError
from tau.records.base import BadRecord, replace
from tau.records.budgets import Budget
from tau.records.settings import ChildEnvironment
from tau.runtime.app.config import ProjectConfig, read_settings
from tau.runtime.app.factory import SessionFactory, load
from tau.runtime.app.options import SessionOptions, SessionTarget
from tau.runtime.machine.core_dumps import forbid_core_dumps
from tau.runtime.terminal import complain, hide_in_log, log_to_stderr
from tau.store.paths import agent_dir, working_folder
from tau.store.resource_query import RequestedResources
from tau.store.settings import SettingsFile
from tau.tools.registry import DEFAULT_TOOLS, TOOLS
from tau.wire.dialect import Dialect

PROMPT_FILE_ENDINGS = (".md", ".txt", ".markdown", ".prompt")


def create_factory(arguments: ParsedArguments, *, strict: bool = False, asks: bool = False) -> SessionFactory:
    """Load the configuration and apply the process-wide settings: logging, hardening.

    `strict`: unknown tools and thinking levels are errors. `asks`: a person at a terminal decides about a session
    whose folder is gone.
    """
    level = logging.INFO if "verbose" in arguments.flags else logging.WARNING
    log_to_stderr(level)
    options = replace(session_options(arguments), strict=strict)
    try:
        factory = load(agent_dir(), options)
    except SessionFolderGone as error:
        if not asks:
            raise
        from tau.cli.resume import choose_folder

        options, stays = choose_folder(error, options)
        factory = load(agent_dir(), options, stays=stays)
    hide_in_log(factory.models.keys.known_secrets)
    harden_process(factory.settings.child_environment, arguments.flags.get("api-key", ""))
    for warning in factory.warnings:
        complain(f"Warning: {warning}")
    return factory.with_sandbox()


def harden_process(inherited: ChildEnvironment, key: str) -> None:
    """Harden this process, in its main thread: `no_new_privs` is for the calling thread and what it starts."""
    forbid_core_dumps()
    if not (key or inherited.filter_secrets or inherited.no_new_privileges):
        return
    from tau.runtime.machine.hardening import harden, hide_argument

    hide_argument(key)
    harden(inherited)


def roots(arguments: ParsedArguments, cwd: str) -> list[str]:
    """The folders below which clients of a server may name folders: its own, and each --root. Raises UsageError."""
    given = [os.path.join(cwd, os.path.expanduser(root)) for root in arguments.lists.get("root", ())]
    for root in given:
        if not os.path.isdir(root):
            raise UsageError(f"--root {root}: there is no such folder")
    return [os.path.realpath(root) for root in (cwd, *given)]


def harden_host(arguments: ParsedArguments) -> None:
    """Harden a program that opens sessions later, as the settings of the user and of the working folder say."""
    found = _child_environment(arguments)
    harden_process(ChildEnvironment() if found is None else found, arguments.flags.get("api-key", ""))


def hide_filtered(inherited: ChildEnvironment) -> None:
    """Hide the memory of a host for a session whose settings filter secrets. For any thread."""
    if inherited.filter_secrets:
        from tau.runtime.machine.hardening import hide_memory

        hide_memory()


def _child_environment(arguments: ParsedArguments) -> ChildEnvironment | None:
    """None if the settings cannot be read, which `create_factory` will report."""
    file = SettingsFile(agent_dir() / "settings.json")
    try:
        layers, _, _ = read_settings(file, Path(working_folder()), _approve(arguments.flags), None)
    except (TauError, BadRecord, OSError):
        return None
    return layers.settings.child_environment


def chosen_dialect(named: str | None) -> Dialect:
    """The dialect named by flag or environment, else that of the settings."""
    return ProjectConfig(agent_dir(), Path(working_folder()), None, dialect=named).dialect


def session_options(arguments: ParsedArguments, environment: Mapping[str, str] = os.environ) -> SessionOptions:
    flags, lists = arguments.flags, arguments.lists
    folder = flags.get("session-dir") or environment.get("PI_CODING_AGENT_SESSION_DIR")
    _check_prompt_file("system-prompt", flags.get("system-prompt", ""))
    for appended in lists.get("append-system-prompt", ()):
        _check_prompt_file("append-system-prompt", appended)
    return SessionOptions(
        program=arguments.program,
        model=flags.get("model"),
        provider=flags.get("provider"),
        models=_list(flags["models"]) if "models" in flags else (),
        thinking=flags.get("thinking"),
        key=flags.get("api-key"),
        tools=_tools(flags),
        script=flags.get("script"),
        dialect=flags.get("dialect") or environment.get("PI_DIALECT"),
        session=SessionTarget(
            kept="no-session" not in flags,
            folder=folder,
            last="continue" in flags and not {"session", "resume"} & flags.keys(),  # as in pi: they win
            named=_chosen_session(flags) if "resume" in flags else flags.get("session"),
            id=flags.get("session-id"),
            copy_of=flags.get("fork"),
            name=flags.get("name"),
        ),
        approve=_approve(flags),
        extensions=lists.get("extension", ()),
        only_these_extensions="no-extensions" in flags,
        flags=dict(_extension_flag(word) for word in arguments.unknown),
        following={name: arguments.words[at] for name, at in arguments.after.items()},
        record=flags.get("record"),
        replay=flags.get("replay"),
        budget=Budget(
            max_turns=_integer(flags, "max-turns"),
            max_tokens=_integer(flags, "max-tokens"),
            max_cost=_number(flags, "max-cost"),
            time_limit=_number(flags, "time-limit"),
            allow_unknown_cost="allow-unknown-cost" in flags,
        ),
        output_schema=flags.get("output-schema"),
        offline="offline" in flags or environment.get("PI_OFFLINE", "").lower() in ("1", "true", "yes"),
        permissions=flags.get("permissions"),
        sandbox=flags.get("sandbox"),
        telemetry=True if "telemetry" in flags else None,
        mcp_files=lists.get("mcp-config", ()) if "no-tools" not in flags else (),
        no_mcp="no-mcp" in flags or "no-tools" in flags,
        excluded_tools=tuple(_list(flags.get("exclude-tools", ""))),
        settings={"theme": flags["use-theme"]} if "use-theme" in flags else {},
        resources=RequestedResources(
            system=flags.get("system-prompt"),
            appended=lists.get("append-system-prompt", ()),
            skills=lists.get("skill", ()),
            templates=lists.get("prompt-template", ()),
            no_skills="no-skills" in flags,
            no_templates="no-prompt-templates" in flags,
            no_context="no-context-files" in flags,
            themes=lists.get("theme", ()),
            no_themes="no-themes" in flags,
        ),
    )


def _approve(flags: Mapping[str, str]) -> bool | None:
    return False if "no-approve" in flags else True if "approve" in flags else None


def _check_prompt_file(flag: str, value: str) -> None:
    """Raise UsageError if a value that is a text or a file can only be meant as a file, and there is none."""
    if len(value.split()) != 1 or not value.endswith(PROMPT_FILE_ENDINGS):
        return
    if not os.path.exists(os.path.join(working_folder(), os.path.expanduser(value))):
        raise UsageError(f"--{flag} {value}: there is no such file")


def _extension_flag(word: str) -> tuple[str, bool | str]:
    name, equals, value = word.lstrip("-").partition("=")
    return name, value if equals else True


def _chosen_session(flags: Mapping[str, str]) -> str:
    from tau.cli.resume import choose_session

    return choose_session(flags)


def _tools(flags: dict[str, str]) -> Sequence[str] | None:
    """The requested tools; None for the default ones. A list may add and remove: +ls,-bash."""
    none = "no-tools" in flags or "no-builtin-tools" in flags
    requested = _list(flags.get("tools", ""))
    excluded = {*_list(flags.get("exclude-tools", "")), *(name[1:] for name in requested if name.startswith("-"))}
    plain = [name for name in requested if name[0] not in "+-"]
    if "*" in plain:
        plain = [*TOOLS, *(name for name in plain if name != "*")]
    if "tools" not in flags and not excluded:
        return () if none else None
    defaults = () if none or plain or flags.get("tools") == "" else DEFAULT_TOOLS
    names = [*defaults, *plain, *(name[1:] for name in requested if name.startswith("+"))]
    return [name for name in dict.fromkeys(names) if name not in excluded]


def _number(flags: Mapping[str, str], name: str) -> float | None:
    try:
        number = float(flags[name]) if name in flags else None
    except ValueError:
        raise UsageError(f"--{name} needs a number, not {flags[name]!r}") from None
    if number is not None and not 0 < number < float("inf"):
        raise UsageError(f"--{name} needs a number above 0, not {flags[name]!r}")
    return number


def _integer(flags: Mapping[str, str], name: str) -> int | None:
    number = _number(flags, name)
    if number is not None and not number.is_integer():
        raise UsageError(f"--{name} needs a whole number, not {flags[name]!r}")
    return None if number is None else int(number)


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
