"""tau: a coding agent for programs.

Importing this package loads nothing else; docs/architecture.md describes the modules.
"""

__version__ = "0.1.0"

TYPE_CHECKING = False  # type checkers treat it as true; importing the real one would load typing
if TYPE_CHECKING:
    from tau import events as events
    from tau import extension as extension
    from tau import fleet as fleet
    from tau import hooks as hooks
    from tau import sync as sync
    from tau.client.client import RpcClient as RpcClient
    from tau.client.errors import AgentGone as AgentGone
    from tau.client.host import HostClient as HostClient
    from tau.client.host import connect as connect
    from tau.core.checks.dialog_handlers import Answer as Answer
    from tau.core.checks.dialog_handlers import Dialog as Dialog
    from tau.errors import AnswerTruncated as AnswerTruncated
    from tau.errors import BudgetReached as BudgetReached
    from tau.errors import CommandError as CommandError
    from tau.errors import ExtensionFailure as ExtensionFailure
    from tau.errors import RunAborted as RunAborted
    from tau.errors import RunError as RunError
    from tau.errors import TauError as TauError
    from tau.errors import ToolError as ToolError
    from tau.errors import UsageError as UsageError
    from tau.functions.function_tools import CallContext as CallContext
    from tau.functions.function_tools import tool as tool
    from tau.library.agent import Agent as Agent
    from tau.library.commands import Node as Node
    from tau.library.opening import open as open
    from tau.library.results import Result as Result
    from tau.library.results import RunStopReason as RunStopReason
    from tau.library.run import Run as Run
    from tau.library.subscriptions import AgentEvent as AgentEvent
    from tau.records.budgets import Budget as Budget
    from tau.records.events import Outcome as Outcome
    from tau.records.messages import Image as Image
    from tau.records.messages import Text as Text
    from tau.tools import Tool as Tool
    from tau.tools import ToolContext as ToolContext
    from tau.tools.registry import DEFAULT_TOOLS as DEFAULT_TOOLS

# Public names and where they are loaded from on first use: a module, or a name in a module.
NAMES = {
    "Agent": "tau.library.agent:Agent",
    "AgentEvent": "tau.library.subscriptions:AgentEvent",
    "AgentGone": "tau.client.errors:AgentGone",
    "Answer": "tau.core.checks.dialog_handlers:Answer",
    "AnswerTruncated": "tau.errors:AnswerTruncated",
    "Budget": "tau.records.budgets:Budget",
    "BudgetReached": "tau.errors:BudgetReached",
    "CallContext": "tau.functions.function_tools:CallContext",
    "CommandError": "tau.errors:CommandError",
    "DEFAULT_TOOLS": "tau.tools.registry:DEFAULT_TOOLS",
    "Dialog": "tau.core.checks.dialog_handlers:Dialog",
    "ExtensionFailure": "tau.errors:ExtensionFailure",
    "HostClient": "tau.client.host:HostClient",
    "Image": "tau.records.messages:Image",
    "Node": "tau.library.commands:Node",
    "Outcome": "tau.records.events:Outcome",
    "Result": "tau.library.results:Result",
    "RpcClient": "tau.client.client:RpcClient",
    "Run": "tau.library.run:Run",
    "RunAborted": "tau.errors:RunAborted",
    "RunError": "tau.errors:RunError",
    "RunStopReason": "tau.library.results:RunStopReason",
    "TauError": "tau.errors:TauError",
    "Text": "tau.records.messages:Text",
    "Tool": "tau.tools:Tool",
    "ToolContext": "tau.tools:ToolContext",
    "ToolError": "tau.errors:ToolError",
    "UsageError": "tau.errors:UsageError",
    "connect": "tau.client.host:connect",
    "events": "tau.events",
    "extension": "tau.extension",
    "fleet": "tau.fleet",
    "hooks": "tau.hooks",
    "open": "tau.library.opening:open",
    "sync": "tau.sync",
    "tool": "tau.functions.function_tools:tool",
}


ON_WINDOWS = "tau does not run on Windows itself: use it in WSL, the Windows Subsystem for Linux."


def __getattr__(name: str) -> object:
    if name not in NAMES:
        raise AttributeError(f"module 'tau' has no attribute {name!r}")
    from importlib import import_module
    from os import name as system

    if system == "nt":
        raise ImportError(ON_WINDOWS)

    module, _, attribute = NAMES[name].partition(":")
    found = import_module(module)
    value: object = getattr(found, attribute) if attribute else found
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *NAMES})
