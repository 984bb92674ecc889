"""`tau completion bash|zsh|fish`: a completion script for the shell, generated from the table of flags.

Names that depend on the machine (models, providers, sessions) are not in the script: it asks `tau completion models`
and so on for them. It never asks `pi`, which has no such command.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from tau.cli.flags import COMMANDS, FLAGS, Flag, ParsedArguments
from tau.cli.sessions import project_sessions
from tau.errors import UsageError
from tau.llm.catalog import OFFLINE_MODELS
from tau.records.models import THINKING_LEVELS
from tau.runtime.app.model_choice import known_models
from tau.runtime.terminal import emit
from tau.store.keys import Keys
from tau.store.paths import agent_dir
from tau.tools.registry import TOOLS
from tau.wire.dialects import NAMES

PROGRAMS = ("pi", "tau")
FILES = {"FILE", "DIR", "PATH"}  # values that are files
# Values that the table of flags does not list.
WORDS = {"thinking": THINKING_LEVELS, "dialect": NAMES, "permissions": ("ask", "rules")}
WORDS |= dict.fromkeys(("tools", "exclude-tools"), tuple(TOOLS))
# Flags whose values `tau completion NAME` lists.
LISTED = {"model": "models", "models": "models", "provider": "providers"}
LISTED |= dict.fromkeys(("session", "session-id", "fork", "export"), "sessions")
SAFE_NAME = re.compile(r"[\w@./:+-]+")  # names from files are not offered if a shell could interpret them
# What follows a command.
AFTER_COMMAND = {"completion": ("bash", "zsh", "fish"), "extension": ("new",)}


def main(arguments: ParsedArguments) -> int:
    wanted = arguments.words[1] if len(arguments.words) == 2 else None
    if wanted in LISTS:
        lines = [name for name in LISTS[wanted]() if SAFE_NAME.fullmatch(name)]
    elif wanted in SHELLS:
        lines = SHELLS[wanted]().split("\n")
    else:
        raise UsageError(f"tau completion {'|'.join(SHELLS)} prints a script for that shell")
    for line in lines:
        emit(line)
    return 0


def _models() -> list[str]:
    models, _ = known_models(agent_dir(), Keys(agent_dir() / "auth.json"))
    listed = [*models.available, *OFFLINE_MODELS]
    return [*dict.fromkeys(model.id for model in listed), *(f"{model.provider}/{model.id}" for model in listed)]


def _providers() -> list[str]:
    return known_models(agent_dir(), Keys(agent_dir() / "auth.json"))[0].catalog.providers


def _sessions() -> list[str]:
    return [row.id for row in project_sessions({})]


def documented() -> list[Flag]:
    """Flags that have an effect."""
    return [flag for flag in FLAGS if flag.help]


def values(flag: Flag) -> tuple[str, ...]:
    """The values of a flag, if they are known."""
    if flag.name in WORDS:
        return tuple(WORDS[flag.name])
    return tuple(flag.value.split("|")) if flag.value.islower() else ()


def bash() -> str:
    cases = []
    for flag in documented():
        names = "|".join(_names(flag))
        if flag.name in LISTED:
            cases.append(f"    {names}) _tau_list {LISTED[flag.name]}; return ;;")
        elif words := values(flag):
            cases.append(f'    {names}) COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$word")); return ;;')
        elif flag.value in FILES:
            cases.append(f'    {names}) COMPREPLY=($(compgen -f -- "$word")); return ;;')
        elif flag.value:
            cases.append(f"    {names}) COMPREPLY=(); return ;;")
    cases += [
        f'    {name}) COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$word")); return ;;'
        for name, words in AFTER_COMMAND.items()
    ]
    listed = "\n".join(cases)
    flags = " ".join(f"--{flag.name}" for flag in documented())
    return f"""\
# eval "$(tau completion bash)"
_tau_list() {{
  local name
  [[ $1 == sessions ]] && COMPREPLY=($(compgen -f -- "$word")) || COMPREPLY=()
  while IFS= read -r name; do
    [[ $name == "$word"* ]] && COMPREPLY+=("$name")
  done < <(tau completion "$1" 2>/dev/null)
}}
_tau() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  case $before in
{listed}
  esac
  case $word in
    -*) COMPREPLY=($(compgen -W "{flags}" -- "$word")) ;;
    @*) COMPREPLY=($(compgen -f -P @ -- "${{word#@}}")) ;;
    *) [[ $1 == *tau && $COMP_CWORD == 1 ]] && COMPREPLY=($(compgen -W "{" ".join(COMMANDS)}" -- "$word")) ;;
  esac
}}
complete -o default -F _tau {" ".join(PROGRAMS)}"""


def zsh() -> str:
    rows = []
    for flag in documented():
        about = flag.help.replace("'", "'\\''").replace("[", "\\[").replace("]", "\\]").replace(":", "\\:")
        words = values(flag)
        action = f"({' '.join(words)})" if words else "_files" if flag.value in FILES else " "
        if flag.name in LISTED:
            action = f"{{_tau_list {LISTED[flag.name]}}}"
        value = f":{flag.value.replace(':', '')}:{action}" if flag.value else ""
        names = _names(flag)
        both = f"'({' '.join(names)})'{{{','.join(names)}}}'" if len(names) > 1 else f"'{names[0]}"
        rows.append(f"  {both}[{about}]{value}' \\")
    listed = "\n".join(rows)
    after = "\n".join(f"    {name}) compadd -- {' '.join(words)}; return ;;" for name, words in AFTER_COMMAND.items())
    return f"""\
#compdef {" ".join(PROGRAMS)}
# eval "$(tau completion zsh)", after compinit
_tau_list() {{
  compadd -- ${{(f)"$(tau completion $1 2>/dev/null)"}}
  [[ $1 == sessions ]] && _files
}}
_tau() {{
  if [[ $words[1] == *tau && $CURRENT == 2 && $words[2] != -* && $words[2] != @* ]]; then
    compadd -- {" ".join(COMMANDS)}
    return
  fi
  case $words[2] in
{after}
  esac
  _arguments \\
{listed}
  '*:message or @file:_files -P @'
}}
compdef _tau {" ".join(PROGRAMS)}"""


def fish() -> str:
    rows = ["# tau completion fish | source"]
    for program in PROGRAMS:
        for flag in documented():
            about = flag.help.replace("\\", "\\\\").replace("'", "\\'")
            words = values(flag)
            value = f" -x -a '{' '.join(words)}'" if words else " -r -F" if flag.value in FILES else " -x"
            if flag.name in LISTED:
                files = " -r -F" if LISTED[flag.name] == "sessions" else " -x"
                value = f"{files} -a '(tau completion {LISTED[flag.name]} 2>/dev/null)'"
            # fish calls a short name of two letters an old-style option.
            short = f" -{'s' if len(flag.short) == 1 else 'o'} {flag.short}" if flag.short else ""
            rows.append(f"complete -c {program} -l {flag.name}{short}{value if flag.value else ''} -d '{about}'")
    for name, about in COMMANDS.items():
        rows.append(f"complete -c tau -n __fish_use_subcommand -a {name} -d '{about}'")
    for name, words in AFTER_COMMAND.items():
        rows.append(f"complete -c tau -n '__fish_seen_subcommand_from {name}' -x -a '{' '.join(words)}'")
    return "\n".join(rows)


def _names(flag: Flag) -> list[str]:
    return [f"--{flag.name}", *([f"-{flag.short}"] if flag.short else [])]


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
LISTS: dict[str, Callable[[], list[str]]] = {
    "models": _models,
    "providers": _providers,
    "tools": lambda: list(TOOLS),
    "sessions": _sessions,
}
