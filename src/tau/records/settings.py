"""What a settings file may say, with defaults. Keys we do not know are kept and ignored.

The sentence below a field is its line in docs/settings.md. Keys of pi that mean
nothing to a program without a screen stand in WITHOUT_EFFECT.
"""

from __future__ import annotations

from typing import Any, Literal

from tau.records.base import Count, Record
from tau.records.commands import QueueMode
from tau.records.models import ThinkingLevel

ProjectTrust = Literal["ask", "always", "never"]
SandboxLevel = Literal["workspace", "strict"]


class RetrySettings(Record):
    """Asking a model again after an error that may pass."""

    enabled: bool = True
    """ask again at all"""
    max_retries: Count = 3
    """how often, for one prompt"""
    base_delay_ms: Count = 2000
    """the first wait; each further one is twice as long"""
    max_delay_ms: Count = 60000
    """a server that wants a longer wait is not waited for; 0: no limit. Newer versions of pi write it as
    `retry.provider.maxRetryDelayMs`, which is understood too"""


class CompactionSettings(Record):
    """With `betweenTurns` a run that grows too long is compacted before it asks again, not only at its end."""

    enabled: bool = True
    """summarise a conversation by itself before it outgrows the model"""
    between_turns: bool = True
    """also in the middle of a run, before the model is asked again"""
    reserve_tokens: int = 16384
    """what must stay free in the model's window"""
    keep_recent_tokens: int = 20000
    """how much of the end is kept word for word"""


class BranchSummarySettings(Record):
    reserve_tokens: int = 16384
    """kept free for the summary of a branch that is left"""
    skip_prompt: bool = False
    """for clients that ask before they summarise: do not ask"""


class ChildEnvironment(Record):
    """What commands inherit.

    It keeps secrets out of logs and transcripts; it is no wall, for a command can
    read the files of its user.
    """

    filter_secrets: bool = False
    """take away variables with secrets in them: those named like one (`*_API_KEY`, `*_TOKEN`, `*SECRET*`, `*PASSWORD*`,
    `*CREDENTIALS*` and the like), those that have a provider's key in them, and addresses with a password"""
    no_new_privileges: bool = False
    """nothing that the agent starts gains rights by being executed, so `sudo` and the like do not work in commands;
    heeded when the program starts"""


class EditSettings(Record):
    require_fresh: bool = False
    """edit and write refuse to change a file that changed since the model last read it"""


class SandboxSettings(Record):
    """What commands and file tools may reach, as `--sandbox`, see [the sandbox](sandbox.md)."""

    level: SandboxLevel | None = None
    """`workspace` or `strict`; without one, and without `--sandbox`, there is no sandbox"""
    readable: list[str] = []
    """files and folders that may be read besides, such as `~/.rustup`"""
    writable: list[str] = []
    """files and folders that may be written besides, such as `~/.cache/go-build`"""


class ImageSettings(Record):
    auto_resize: bool = True
    """make large images small enough for every provider"""
    block_images: bool = False
    """keep all images from models"""


class ExtensionSettings(Record):
    """Limits of extensions, each of which runs in a process of its own."""

    handler_timeout_ms: Count = 30000
    """for a handler whose answer is waited for; time in a dialog does not count"""
    observer_timeout_ms: Count = 5000
    """for a handler that is only told"""
    load_timeout_ms: Count = 10000
    """until an extension is ready"""
    memory_limit_mb: Count = 2048
    """address space of its process; 0: no limit"""


class Settings(Record):
    default_provider: str | None = None
    """provider of the model to start with; written when a client sets a model"""
    default_model: str | None = None
    """its id"""
    default_thinking_level: ThinkingLevel | None = None
    """how much a model thinks at first; medium, if nothing is said"""
    thinking_budgets: dict[str, int] = {}
    """tokens for levels of thinking, such as `{"low": 2048}`"""
    interleaved_thinking: bool = True
    """let Claude think between its tool calls, where that has to be asked for"""
    enabled_models: list[str] | None = None
    """patterns of the models that `cycle_model` goes through, as `--models`"""
    default_tools: list[str] | None = None
    """tools the model gets when `--tools` says nothing"""
    steering_mode: QueueMode = "one-at-a-time"
    """how many steering messages are handed over at once"""
    follow_up_mode: QueueMode = "one-at-a-time"
    """the same for follow-ups"""
    tool_execution: Literal["sequential", "parallel"] = "sequential"
    """run the tool calls of one answer one after another, or side by side"""
    steer_after: Literal["tool", "turn"] = "tool"
    """hand steering over after the tool that runs, and skip those after it, or when all tools of the answer are done"""
    announce_answer: Literal["asked", "begun"] = "asked"
    """send `message_start` when the model is asked, or when its answer begins"""
    retry_success: Literal["answer", "run"] = "answer"
    """send `auto_retry_end` after the answer that succeeded, or at the end of the run"""
    streaming_until: Literal["end", "settled"] = "end"
    """`isStreaming` until `agent_end`, or until `agent_settled`"""
    keep_bash_after: Literal["prompt", "run"] = "prompt"
    """a client's command during a run joins the conversation with the next prompt, or at the end of the run"""
    stats_of: Literal["session", "conversation"] = "session"
    """`get_session_stats` counts every entry of the session, or only what `get_messages` shows"""
    keep_named_model: bool = False
    """a model named on the command line stays when another session is opened"""
    thinking_returns: bool = False
    """the level of thinking comes back after a model that has none"""
    save_models: bool = True
    """a model or level that a client sets is the default from then on"""
    dialect: str | None = None
    """the version of the protocol that is spoken, as `--dialect`"""
    keep_attachments: bool = False
    """keep the `attachments` of a prompt on its message"""
    bash_updates: bool = False
    """send `bash_execution_update` while a client's command runs"""
    retry: RetrySettings = RetrySettings()
    compaction: CompactionSettings = CompactionSettings()
    branch_summary: BranchSummarySettings = BranchSummarySettings()
    session_dir: str | None = None
    """folder for session files, `~` and relative to the working directory; `--session-dir` and
    `PI_CODING_AGENT_SESSION_DIR` come first"""
    shell_path: str | None = None
    """the shell that commands run in, instead of bash"""
    shell_command_prefix: str | None = None
    """put before every command, on a line of its own"""
    child_environment: ChildEnvironment = ChildEnvironment()
    sandbox: SandboxSettings = SandboxSettings()
    edit: EditSettings = EditSettings()
    images: ImageSettings = ImageSettings()
    extensions: list[str] = []
    """files and folders of extensions"""
    skills: list[str] = []
    """files and folders of skills"""
    prompts: list[str] = []
    """files and folders of prompt templates"""
    themes: list[str] = []
    """accepted; nothing is shown here"""
    packages: list[Any] = []
    """packages, as a source or as an object with a source; accepted, and not installed or loaded by this version"""
    enable_skill_commands: bool = True
    """list skills as commands"""
    extension_host: ExtensionSettings = ExtensionSettings()
    default_project_trust: ProjectTrust = "ask"
    """what a project counts as about which nothing was decided: with `ask` your extensions are asked, and without a
    yes it is not trusted. `always` trusts every folder the agent is started in"""
    allow_config_writes: bool = False
    """let the tools write and edit change the agent's own files and those of a project that need trust"""
    npm_command: list[str] | None = None
    """accepted; nothing is installed by this version"""
    transport: Literal["sse", "websocket", "websocket-cached", "auto"] = "sse"
    """accepted; answers always come as server-sent events"""
    http_proxy: str | None = None
    """a proxy for HTTP and HTTPS, where the environment names none"""
    http_connect_timeout_ms: Count = 30000
    """until there is a connection to the model server; 0: no limit, as for the next two"""
    http_first_byte_timeout_ms: Count = 300000
    """until an answer begins"""
    http_idle_timeout_ms: Count = 120000
    """between two pieces of an answer"""


# Entries of both files count, and relative paths belong to the file they stand in.
RESOURCE_LISTS = ("packages", "extensions", "skills", "prompts", "themes")

# No project has a say in these, trusted or not: they are about the user's own machine, and about trust itself.
USER_ONLY = ("defaultProjectTrust", "allowConfigWrites", "httpProxy", "sandbox")

WITHOUT_EFFECT = (
    *("autocompleteMaxVisible", "cacheWarming", "codemode", "collapseChangelog", "doubleEscapeAction"),
    *("editorPaddingX", "enableAnalytics", "enableInstallTelemetry", "externalEditor", "hideThinkingBlock"),
    *("lastChangelogVersion", "markdown", "modelThinkingLevels", "outputPad", "quietStartup", "showCacheMissNotices"),
    *("showHardwareCursor", "terminal", "theme", "treeFilterMode", "tuiMode", "warnings", "websocketConnectTimeoutMs"),
)
