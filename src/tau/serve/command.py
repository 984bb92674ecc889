"""`tau serve` and its subcommands. Each is loaded only when it is needed."""

from __future__ import annotations

import gc
from importlib import import_module
from typing import Any

from tau.cli.flags import ParsedArguments
from tau.cli.main import load_quickly
from tau.errors import UsageError

SUBCOMMANDS = {
    "": "tau.serve.process",
    "status": "tau.serve.status",
    "token": "tau.serve.token_command",
    "url": "tau.serve.browser_url",
}
USAGE = "usage: tau serve [options], or tau serve status|url|token; tau serve --help tells more"


def main(arguments: ParsedArguments) -> int:
    name = arguments.words[1] if len(arguments.words) > 1 else ""
    if name not in SUBCOMMANDS or (name == "" and len(arguments.words) > 1):
        raise UsageError(USAGE)
    load_quickly()
    module: Any = import_module(SUBCOMMANDS[name])
    gc.enable()
    code: int = module.main(arguments)
    return code
