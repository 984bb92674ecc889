"""Fleets: a line of the task file, a result, and the lines between the coordinator and its workers."""

from __future__ import annotations

from typing import Any, Literal

from tau.records.base import Record
from tau.records.budgets import Budget

Workspace = Literal["worktree", "clone", "copy", "empty", "in-place"]
Outcome = Literal["done", "solved", "unsolved", "limited", "stuck", "failed", "denied", "stopped"]


class Container(Record, forbid_unknown_fields=True):
    """A container for the commands of a task."""

    image: str
    network: bool = False


class TaskBudget(Budget, forbid_unknown_fields=True):
    """Limits of a task; without `timeLimit` it is an hour."""


class Task(Record, forbid_unknown_fields=True):
    """A line of the task file. `prompt` is a text, or several: one prompt after the other in one session."""

    id: str = ""
    """name of the task: letters, digits, `.`, `_`, `-`; default: a hash of the line"""
    prompt: str | list[str] = ""
    prompt_file: str | None = None
    """a file with the prompt, instead of `prompt`"""
    attachments: list[str] = []
    """files for the first prompt"""
    repo: str | None = None
    """a folder with a git repository, or a URL"""
    base: str | None = None
    """commit, tag or branch; default: HEAD"""
    workspace: Workspace | None = None
    """where the agent works; default: `worktree` with a repo, else `empty`"""
    model: str | None = None
    provider: str | None = None
    thinking: str | None = None
    tools: list[str] | None = None
    system_prompt: str | None = None
    append_system_prompt: str | None = None
    extensions: list[str] = []
    settings: dict[str, Any] = {}
    script: str | None = None
    """answers of the scripted model"""
    budget: TaskBudget = TaskBudget()
    sandbox: Literal["workspace", "strict", "none"] | None = None
    permissions: dict[str, Any] | None = None
    """permission rules; what they ask about is denied"""
    container: Container | None = None
    setup: str | None = None
    """a command before the prompt"""
    check: str | None = None
    """a command after it: the task is `solved` if it ends with 0, else `unsolved`"""
    output: Literal["patch", "branch", "none"] | dict[Literal["files"], list[str]] = "patch"
    """what is kept of the work"""
    output_schema: dict[str, Any] | None = None
    """JSON Schema of the result"""
    retries: int = 2
    priority: int = 0
    needs: dict[str, Any] = {}
    """labels that a worker must have"""
    labels: dict[str, str] = {}
    env: list[str] = []
    """names of variables of the worker's environment for the task"""


class Seconds(Record):
    """How long the parts of an attempt took."""

    queue: float = 0
    setup: float = 0
    run: float = 0
    check: float = 0


class Patch(Record):
    path: str
    sha256: str
    files: int
    added: int
    removed: int


class CheckResult(Record):
    code: int
    tail: str


class Usage(Record):
    input: int = 0
    output: int = 0
    cache_read: int = 0
    cache_write: int = 0


class Result(Record):
    """The final result of a task."""

    id: str
    attempt: int
    outcome: Outcome
    task_hash: str
    error: str | None = None
    text: str = ""
    output: Any = None
    patch: Patch | None = None
    check: CheckResult | None = None
    usage: Usage = Usage()
    cost: float = 0
    cost_unknown: bool = False
    turns: int = 0
    tool_calls: int = 0
    seconds: Seconds = Seconds()
    model: str = ""
    worker: str = ""
    session: str = ""
    labels: dict[str, str] = {}
    base: str | None = None


# Coordinator to worker.


class ToWorker(Record, tag_field="type"):
    """A line to a worker."""


class Welcome(ToWorker, tag="welcome"):
    """The answer to `hello`, before any order. `models` is the text of the user's models.json; empty if there is none.

    It contains keys only for workers on the machine of the coordinator.
    """

    run: str
    models: str = ""


class Order(ToWorker, tag="order"):
    """Work on attempt `number` of a task. `folder` gets the result."""

    attempt: str
    number: int
    task: Task
    task_hash: str
    folder: str
    base: str | None = None
    sandbox: str = "none"
    keep: Literal["never", "failed", "always"] = "never"
    run: str = ""
    """identifies the fleet, in telemetry and in the paths of its work folders"""
    mirror: str | None = None
    """folder for copies of repositories that a URL names"""
    dry_run: bool = False
    """only check that the task could begin: its model, its key and the sandbox"""
    after_loss: Literal["restart", "continue"] = "restart"
    """`continue`: if this attempt is lost, the next one may take up its session and its work folder"""
    continues: int = 0
    """the number of the lost attempt to continue, if this machine has its files; 0: begin from the start"""
    orphans: str | None = None
    """a folder through which the worker and a later coordinator find each other, if this coordinator is gone"""


class Stop(ToWorker, tag="stop"):
    """Abort an attempt. `keep`: the next run may continue it, so its files stay."""

    attempt: str
    keep: bool = False


class Acknowledge(ToWorker, tag="ack"):
    """The result is in the ledger: the work tree may go."""

    attempt: str


AnyOrder = Welcome | Order | Stop | Acknowledge

# Worker to coordinator.


class FromWorker(Record, tag_field="type"):
    """A line from a worker."""


class Hello(FromWorker, tag="hello"):
    version: str
    slots: int
    labels: dict[str, Any] = {}
    pid: int = 0


class Begun(FromWorker, tag="begun"):
    attempt: str


class Beat(FromWorker, tag="beat"):
    """The attempts that the worker works on; every ten seconds."""

    attempts: list[str]


class Progress(FromWorker, tag="progress"):
    attempt: str
    cost: float = 0
    tokens: int = 0
    turns: int = 0


class Limited(FromWorker, tag="limited"):
    """A provider refused a request because there were too many. Times are in seconds."""

    provider: str
    retry_after: float | None = None
    """after which the provider wants to be asked again"""
    attempt: str = ""
    wait: float = 0
    """how long the attempt waits now; its clock stands still"""


class Capacity(FromWorker, tag="capacity"):
    """How many attempts the worker takes at once from now on; 0: no orders, because of `reason`."""

    slots: int
    reason: str = ""


class Done(FromWorker, tag="done"):
    """An attempt has ended, and its folder is complete.

    `transient`: another attempt may succeed. `uncounted`: it failed for a reason outside the task (a provider's limit,
    a full disk), so it is tried again and does not count against `retries`.
    """

    attempt: str
    result: Result
    transient: bool = False
    uncounted: bool = False
