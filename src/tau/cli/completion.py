"""`tau completion bash|zsh|fish`: a completion script for the shell, generated from the table of flags."""

from __future__ import annotations

from tau.cli.flags import FLAGS, Flag, ParsedArguments
from tau.errors import UsageError
from tau.records.models import THINKING_LEVELS
from tau.runtime.terminal import emit
from tau.wire.dialects import NAMES

PROGRAMS = ("pi", "tau")
COMMANDS = ("completion", "doctor", "login", "logout")
FILES = {"FILE", "DIR", "PATH", "PATH|ID"}  # values that are files
# Values that the table of flags does not list.
WORDS = {"thinking": THINKING_LEVELS, "dialect": NAMES, "model": ("demo",), "permissions": ("ask", "rules")}


def main(arguments: ParsedArguments) -> int:
    shell = arguments.words[1] if len(arguments.words) == 2 else None
    if shell not in SHELLS:
        raise UsageError(f"tau completion {'|'.join(SHELLS)} prints a script for that shell")
    for line in SHELLS[shell]().split("\n"):
        emit(line)
    return 0


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
        if words := values(flag):
            cases.append(f'    {names}) COMPREPLY=($(compgen -W "{" ".join(words)}" -- "$word")); return ;;')
        elif flag.value in FILES:
            cases.append(f'    {names}) COMPREPLY=($(compgen -f -- "$word")); return ;;')
        elif flag.value:
            cases.append(f"    {names}) COMPREPLY=(); return ;;")
    listed = "\n".join(cases)
    flags = " ".join(f"--{flag.name}" for flag in documented())
    return f"""\
# eval "$(tau completion bash)"
_tau() {{
  local word=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  case $before in
{listed}
    completion) COMPREPLY=($(compgen -W "{" ".join(SHELLS)}" -- "$word")); return ;;
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
        value = f":{flag.value.replace(':', '')}:{action}" if flag.value else ""
        names = _names(flag)
        both = f"'({' '.join(names)})'{{{','.join(names)}}}'" if len(names) > 1 else f"'{names[0]}"
        rows.append(f"  {both}[{about}]{value}' \\")
    listed = "\n".join(rows)
    return f"""\
#compdef {" ".join(PROGRAMS)}
# eval "$(tau completion zsh)", after compinit
_tau() {{
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
            # fish calls a short name of two letters an old-style option.
            short = f" -{'s' if len(flag.short) == 1 else 'o'} {flag.short}" if flag.short else ""
            rows.append(f"complete -c {program} -l {flag.name}{short}{value if flag.value else ''} -d '{about}'")
    rows.append(f"complete -c tau -n __fish_use_subcommand -a '{' '.join(COMMANDS)}'")
    rows.append(f"complete -c tau -n '__fish_seen_subcommand_from completion' -x -a '{' '.join(SHELLS)}'")
    return "\n".join(rows)


def _names(flag: Flag) -> list[str]:
    return [f"--{flag.name}", *([f"-{flag.short}"] if flag.short else [])]


SHELLS = {"bash": bash, "zsh": zsh, "fish": fish}
