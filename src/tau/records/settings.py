"""What a settings file may say, with defaults. Keys we do not know are kept and ignored."""

from __future__ import annotations

from typing import Literal

from tau.records.base import Record
from tau.records.commands import QueueMode
from tau.records.models import ThinkingLevel


class RetrySettings(Record):
    """Waits double from `baseDelayMs`. A server that wants more than `maxDelayMs` (0: no limit) is not waited for."""

    enabled: bool = True
    max_retries: int = 3
    base_delay_ms: int = 2000
    max_delay_ms: int = 60000


class CompactionSettings(Record):
    enabled: bool = True
    reserve_tokens: int = 16384
    keep_recent_tokens: int = 20000


class BranchSummarySettings(Record):
    """`reserveTokens` are kept free for the summary; `skipPrompt` is for clients that ask before they summarise."""

    reserve_tokens: int = 16384
    skip_prompt: bool = False


class ChildEnvironment(Record):
    """What commands inherit. `filterSecrets` takes away variables with secrets in them.

    Those are *_API_KEY, *_TOKEN, *SECRET*, *PASSWORD*, *CREDENTIALS*, and whichever
    a provider's key comes from. It keeps secrets out of logs and transcripts; it is
    no wall, for a command can read the files and processes of its user.
    """

    filter_secrets: bool = False


class EditSettings(Record):
    """With `requireFresh`, edit and write refuse to change a file that changed since the model last read it."""

    require_fresh: bool = False


class ImageSettings(Record):
    """`autoResize` makes large images small enough for every provider. `blockImages` keeps all of them from models."""

    auto_resize: bool = True
    block_images: bool = False


class Settings(Record):
    default_provider: str | None = None
    default_model: str | None = None
    default_thinking_level: ThinkingLevel | None = None
    thinking_budgets: dict[str, int] = {}
    enabled_models: list[str] | None = None
    steering_mode: QueueMode = "one-at-a-time"
    follow_up_mode: QueueMode = "one-at-a-time"
    tool_execution: Literal["sequential", "parallel"] = "sequential"
    retry: RetrySettings = RetrySettings()
    compaction: CompactionSettings = CompactionSettings()
    branch_summary: BranchSummarySettings = BranchSummarySettings()
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    child_environment: ChildEnvironment = ChildEnvironment()
    edit: EditSettings = EditSettings()
    images: ImageSettings = ImageSettings()
    http_connect_timeout_ms: int = 30000
    http_first_byte_timeout_ms: int = 300000
    http_idle_timeout_ms: int = 120000
