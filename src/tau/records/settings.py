"""What a settings file may say, with defaults. Keys we do not know are kept and ignored."""

from __future__ import annotations

from typing import Literal

from tau.records.base import Record
from tau.records.commands import QueueMode
from tau.records.models import ThinkingLevel


class RetrySettings(Record):
    """Waits double from `baseDelayMs`; a server that asks for more than `maxDelayMs` (0: any) is not waited for."""

    enabled: bool = True
    max_retries: int = 3
    base_delay_ms: int = 2000
    max_delay_ms: int = 60000


class CompactionSettings(Record):
    enabled: bool = True
    reserve_tokens: int = 16384
    keep_recent_tokens: int = 20000


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
    shell_path: str | None = None
    shell_command_prefix: str | None = None
    http_idle_timeout_ms: int = 120000
    http_connect_timeout_ms: int = 30000
