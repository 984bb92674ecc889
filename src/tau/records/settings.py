"""Settings, with defaults. Unknown keys in a settings file are kept and ignored.

The docstring of a field is its row in docs/settings.md. WITHOUT_EFFECT lists keys of pi that only matter to a screen
or to features that tau does not have.
"""

# Without `from __future__ import annotations`: msgspec would compile each annotation of what every start decodes.
from typing import Any, Literal

from tau.records.base import Count, Record
from tau.records.commands import QueueMode
from tau.records.models import ThinkingLevel

ProjectTrust = Literal["ask", "always", "never"]
SandboxLevel = Literal["workspace", "strict"]


class RetrySettings(Record):
    """Automatic retries of model calls after transient errors."""

    enabled: bool = True
    """Retry model calls after transient errors."""
    max_retries: Count = 3
    """Maximum number of retries per prompt."""
    base_delay_ms: Count = 2000
    """Delay before the first retry; doubled for each further one."""
    max_delay_ms: Count = 60000
    """If the server asks for a longer delay than this, tau does not retry; 0 means no limit. Newer versions of pi
    call it `retry.provider.maxRetryDelayMs`, which is accepted too."""


class CompactionSettings(Record):
    """Automatic compaction."""

    enabled: bool = True
    """Compact the conversation automatically before it exceeds the context window."""
    between_turns: bool = True
    """Also compact during a run, before the next model call, and not only at its end."""
    reserve_tokens: int = 16384
    """Tokens of the context window that must stay free."""
    keep_recent_tokens: int = 20000
    """Tokens at the end of the conversation that are kept verbatim."""


class BranchSummarySettings(Record):
    reserve_tokens: int = 16384
    """Tokens of the context window reserved for the summary of an abandoned branch."""
    skip_prompt: bool = False
    """For clients that ask before summarizing a branch: do not ask."""


class ChildEnvironment(Record):
    """The environment of commands.

    Filtering keeps secrets out of logs and transcripts. It is not a security boundary: a command can read the files
    of its user.
    """

    filter_secrets: bool = False
    """Remove environment variables that hold secrets: those named like one
    ([the list](security.md#which-variables-are-secrets)), those that contain the key of a provider, and URLs with a
    user or password. A project can switch this on, but not off."""
    secret_names: list[str] = []
    """Names of additional variables to remove; `*` matches any characters, as in `ACME_*`."""
    pass_names: list[str] = []
    """Names of variables to pass on although they look like secrets, also in a sandbox."""
    no_new_privileges: bool = False
    """Set `no_new_privs` for everything that the agent starts, so that `sudo` and other setuid programs do not work
    in commands. Takes effect when the program starts. A project can switch this on, but not off."""


class EditSettings(Record):
    require_fresh: bool = False
    """Make `edit` and `write` refuse to change a file that has changed since the model last read it."""


class SandboxSettings(Record):
    """Limits of commands and file tools, as `--sandbox`; see [the sandbox](sandbox.md)."""

    level: SandboxLevel | None = None
    """`workspace` or `strict`; without it, and without `--sandbox`, there is no sandbox."""
    readable: list[str] = []
    """Additional files and folders that can be read, such as `~/.rustup`."""
    writable: list[str] = []
    """Additional files and folders that can be written, such as `~/.cache/go-build`."""


class ImageSettings(Record):
    auto_resize: bool = True
    """Scale large images down to a size that every provider accepts."""
    block_images: bool = False
    """Never send images to models."""


class TerminalSettings(Record):
    """The terminal itself; other keys of pi in `terminal` are accepted without effect."""

    true_color: bool | Literal["auto"] = "auto"
    """Colours of 24 bits; with `auto`, the environment decides (`COLORTERM`, `TERM`)."""
    reflow: bool | Literal["auto"] = "auto"
    """Whether the terminal wraps earlier lines again when its width changes; `auto` asks which terminal it is."""
    show_terminal_progress: bool = False
    """Show in the tab or the task bar of the terminal that a run is active (OSC 9;4)."""


class TelemetrySettings(Record):
    """OpenTelemetry; see [telemetry](telemetry.md)."""

    enabled: bool = False
    """Send traces, metrics and logs to where the `OTEL_…` variables say, as `--telemetry`."""
    propagate_to_commands: bool = False
    """Pass the trace on to the commands of tools, as `TRACEPARENT`."""
    propagate_to_models: bool = False
    """Pass the trace on to model servers, as the header `traceparent`."""


class ExtensionSettings(Record):
    """Limits of extensions; each extension runs in its own process."""

    handler_timeout_ms: Count = 30000
    """Timeout of a handler whose result is awaited; time spent in a dialog does not count."""
    observer_timeout_ms: Count = 5000
    """Timeout of a handler that is only notified."""
    load_timeout_ms: Count = 10000
    """Timeout for loading an extension."""
    memory_limit_mb: Count = 2048
    """Address space limit of an extension process; 0 means no limit. For TypeScript extensions it limits the heap."""
    node: str | Literal[False] | None = None
    """Path of the Node program (22.18 or later) that runs TypeScript extensions; by default `node` on PATH. `false`
    turns them off."""
    node_processes: Literal["shared", "package"] = "shared"
    """Run all TypeScript extensions in one Node process, or each package in its own."""


FileTexts = Literal["0.13", "0.59", "0.84", "0.87"]


class CompatSettings(Record):
    """Behaviour that differs between versions of pi. Dialects set it; clients of one version need none of it."""

    steer_after: Literal["tool", "turn"] = "tool"
    """Deliver steering messages after the current tool call and skip the remaining ones, or after all tool calls of
    the message."""
    announce_answer: Literal["asked", "begun"] = "asked"
    """Send `message_start` when the model is called, or when its answer begins."""
    retry_success: Literal["answer", "run"] = "answer"
    """Send `auto_retry_end` after the answer that succeeded, or at the end of the run."""
    streaming_until: Literal["end", "settled"] = "end"
    """`isStreaming` is true until `agent_end`, or until `agent_settled`."""
    keep_bash_after: Literal["prompt", "run"] = "prompt"
    """When a `bash` command of the client that ends during a run is added to the conversation: with the next prompt,
    or at the end of the run."""
    stats_of: Literal["session", "conversation"] = "session"
    """`get_session_stats` counts every entry of the session, or only the messages that `get_messages` returns."""
    keep_named_model: bool = False
    """Keep a model named on the command line when another session is opened."""
    command_response: Literal["start", "end"] = "start"
    """Respond to a prompt that is a command of an extension when the command starts, or when it ends."""
    provider_details: bool = False
    """Messages have `rawStopReason`, and their usage `cacheWrite1h`."""
    system_messages: bool = False
    """Add messages with the role `system` to the conversation, which tell clients of the system prompt and tools."""
    session_folder: Literal["own", "start"] = "own"
    """A session runs in the folder that its file names, or in the one where the program was started."""
    file_texts: FileTexts = "0.87"
    """Results of `edit` and `write` as pi has them from this release on; those of `edit` have `patch` from 0.84."""
    compact_short: bool = False
    """Compact a conversation on request that is too short to leave anything out."""
    max_level: bool = True
    """Models may have the thinking level `max`."""
    thinking_returns: bool = False
    """Restore the thinking level after using a model that does not support thinking."""
    save_lowered_level: bool = False
    """Also save a thinking level as the default that was lowered because the model does not support a higher one."""


class Settings(Record):
    default_provider: str | None = None
    """Provider of the initial model. Written when a client sets a model."""
    default_model: str | None = None
    """Id of the initial model."""
    default_thinking_level: ThinkingLevel | None = None
    """Initial thinking level; `medium` if not set."""
    thinking_budgets: dict[str, int] = {}
    """Thinking tokens per thinking level, such as `{"low": 2048}`."""
    interleaved_thinking: bool = True
    """Let Claude think between tool calls, for models where this must be requested."""
    enabled_models: list[str] | None = None
    """Patterns of the models that `cycle_model` cycles through, as `--models`."""
    default_tools: list[str] | None = None
    """Tools that are enabled if `--tools` is not given."""
    steering_mode: QueueMode = "one-at-a-time"
    """How many queued steering messages are delivered at once."""
    follow_up_mode: QueueMode = "one-at-a-time"
    """How many queued follow-up messages are delivered at once."""
    tool_execution: Literal["sequential", "parallel"] = "sequential"
    """Run the tool calls of one message one after another or in parallel."""
    stuck_after: Count = 8
    """End a run after so many answers in a row whose tool calls all failed in the same way; 0 means never. See
    [budgets](budgets.md#a-model-that-is-stuck)."""
    save_models: bool = True
    """Save a model or thinking level that a client sets as the new default."""
    dialect: str | None = None
    """Version of the protocol, as `--dialect`."""
    keep_attachments: bool = False
    """Keep the `attachments` of a prompt in its message."""
    bash_updates: bool = False
    """Send `bash_execution_update` events while a `bash` command of the client runs."""
    retry: RetrySettings = RetrySettings()
    compaction: CompactionSettings = CompactionSettings()
    compat: CompatSettings = CompatSettings()
    branch_summary: BranchSummarySettings = BranchSummarySettings()
    session_dir: str | None = None
    """Folder for session files; may begin with `~` or be relative to the working directory. `--session-dir` and
    `PI_CODING_AGENT_SESSION_DIR` take precedence."""
    shell_path: str | None = None
    """Shell that runs commands, instead of bash."""
    shell_command_prefix: str | None = None
    """Prepended to every command, on a line of its own."""
    child_environment: ChildEnvironment = ChildEnvironment()
    sandbox: SandboxSettings = SandboxSettings()
    edit: EditSettings = EditSettings()
    images: ImageSettings = ImageSettings()
    extensions: list[str] = []
    """Files and folders of extensions."""
    mcp_servers: dict[str, Any] = {}
    """[MCP servers](mcp.md), as in `mcp.json`."""
    skills: list[str] = []
    """Files and folders of skills."""
    prompts: list[str] = []
    """Files and folders of prompt templates."""
    themes: list[str] = []
    """Files and folders of themes for the terminal interface."""
    theme: str | None = None
    """Theme of the terminal interface: `dark`, `light`, `ansi`, the name of a theme file, or `light/dark` for two
    that follow the terminal's background; `dark` if not set."""
    terminal: TerminalSettings = TerminalSettings()
    plain: bool = False
    """Start the plain interface, as `--plain`: lines only, for screen readers."""
    hide_thinking_block: bool = False
    """Show `Thinking…` instead of the model's thinking."""
    external_editor: str | None = None
    """Command of the editor for Ctrl+G; else `$VISUAL`, `$EDITOR`, nano or vi."""
    double_escape_action: Literal["tree", "fork", "none"] = "tree"
    """What two presses of Escape do in an empty editor."""
    tree_filter_mode: Literal["default", "no-tools", "user-only", "labeled-only", "all"] = "default"
    """Which entries `/tree` shows when it opens."""
    autocomplete_max_visible: Count = 5
    """Rows of the completion list; 3 to 20."""
    quiet_startup: bool = False
    """Show no header at the start."""
    quiet_exit: bool = False
    """Show no summary at the end."""
    resume_lines: Count = 200
    """Lines of a resumed session that are shown."""
    notifications: Literal["auto", "bell", "off"] = "auto"
    """How the terminal tells that a long run has ended or a question waits while it does not have the focus."""
    packages: list[Any] = []
    """[Packages](packages.md): each a source (`npm:…`, `git:…`, a path), or an object with a source and filters."""
    install_missing_packages: bool = False
    """Install packages of the settings that are missing when the program starts. Otherwise it says so and goes on."""
    enable_skill_commands: bool = True
    """Offer skills as slash commands."""
    telemetry: TelemetrySettings = TelemetrySettings()
    extension_host: ExtensionSettings = ExtensionSettings()
    default_project_trust: ProjectTrust = "ask"
    """Trust of a project without a decision. With `ask`, your extensions are asked, and the project is not trusted
    unless one agrees. `always` trusts every folder in which the agent is started."""
    allow_config_writes: bool = False
    """Let the tools `write` and `edit` change the agent's own files and those project files that need trust."""
    npm_command: list[str] | None = None
    """The program that installs packages of npm, and its first arguments, instead of `npm`."""
    transport: Literal["sse", "websocket", "websocket-cached", "auto"] = "sse"
    """Accepted without effect: model responses are always streamed as server-sent events."""
    http_proxy: str | None = None
    """Proxy for HTTP and HTTPS if the environment names none."""
    http_connect_timeout_ms: Count = 30000
    """Timeout for connecting to the model server; 0 means no limit, also for the next two."""
    http_first_byte_timeout_ms: Count = 300000
    """Timeout until a response begins."""
    http_idle_timeout_ms: Count = 120000
    """Timeout between two chunks of a response."""


# These were once at the top level of a settings file, where they are still accepted.
COMPAT_NAMES: tuple[str, ...] = CompatSettings.__struct_encode_fields__

# Entries of the user's and the project's file are combined. Relative paths are relative to the file that names them.
RESOURCE_LISTS = ("packages", "extensions", "skills", "prompts", "themes")

# Paths, and lists of paths.
PATH_SETTINGS = (
    *RESOURCE_LISTS,
    "sessionDir",
    "shellPath",
    "externalEditor",
    "npmCommand",
    "extensionHost.node",
    "sandbox.readable",
    "sandbox.writable",
)

# Limits of what commands can do. A session does not start with the default of one that was meant to be set.
LIMIT_SETTINGS = ("sandbox", "childEnvironment")

# Ignored in a project's file, even in a trusted one: they concern the user's machine, and trust itself.
USER_ONLY_SETTINGS = (
    "defaultProjectTrust",
    "allowConfigWrites",
    "httpProxy",
    "sandbox",
    "childEnvironment.secretNames",
    "childEnvironment.passNames",
    "telemetry",
    "installMissingPackages",
)
# What a terminal needs to know also when the session runs at a host, which has its own value of all others.
TERMINAL_SETTINGS = tuple(
    """
    autocompleteMaxVisible branchSummary.skipPrompt doubleEscapeAction externalEditor hideThinkingBlock
    images.autoResize notifications plain quietExit quietStartup resumeLines terminal theme themes treeFilterMode
    """.split()
)
# A project may switch these on, but not off.
STRICTER_ONLY = ("childEnvironment.filterSecrets", "childEnvironment.noNewPrivileges")

IGNORED_SETTINGS = """
cacheWarming codemode collapseChangelog editorPaddingX enableAnalytics enableInstallTelemetry lastChangelogVersion
markdown modelThinkingLevels outputPad showCacheMissNotices showHardwareCursor tuiMode warnings
websocketConnectTimeoutMs
""".split()
