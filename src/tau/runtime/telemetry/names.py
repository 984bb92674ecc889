"""All names that telemetry sends, from the GenAI semantic conventions of OpenTelemetry and tau's own.

The conventions are in development: this table is pinned to one version of them, which is the `schema_url` of what is
sent. Nothing outside this module spells a name.
"""

from __future__ import annotations

from typing import Final

SEMCONV_VERSION: Final = "1.44.0"
SCHEMA_URL: Final = f"https://opentelemetry.io/schemas/{SEMCONV_VERSION}"
SCOPE: Final = "tau"

# Operations.
INVOKE_AGENT: Final = "invoke_agent"
CHAT: Final = "chat"
EXECUTE_TOOL: Final = "execute_tool"
INVOKE_WORKFLOW: Final = "invoke_workflow"

# Attributes of the conventions.
OPERATION: Final = "gen_ai.operation.name"
CONVERSATION: Final = "gen_ai.conversation.id"
AGENT_NAME: Final = "gen_ai.agent.name"
AGENT_VERSION: Final = "gen_ai.agent.version"
PROVIDER: Final = "gen_ai.provider.name"
REQUEST_MODEL: Final = "gen_ai.request.model"
REQUEST_MAX_TOKENS: Final = "gen_ai.request.max_tokens"
REQUEST_STREAM: Final = "gen_ai.request.stream"
RESPONSE_MODEL: Final = "gen_ai.response.model"
RESPONSE_ID: Final = "gen_ai.response.id"
FINISH_REASONS: Final = "gen_ai.response.finish_reasons"
FIRST_CHUNK: Final = "gen_ai.response.time_to_first_chunk"
INPUT_TOKENS: Final = "gen_ai.usage.input_tokens"
OUTPUT_TOKENS: Final = "gen_ai.usage.output_tokens"
CACHE_READ_TOKENS: Final = "gen_ai.usage.cache_read.input_tokens"
CACHE_WRITE_TOKENS: Final = "gen_ai.usage.cache_creation.input_tokens"
REASONING_TOKENS: Final = "gen_ai.usage.reasoning.output_tokens"
TOOL_NAME: Final = "gen_ai.tool.name"
TOOL_TYPE: Final = "gen_ai.tool.type"
TOOL_CALL_ID: Final = "gen_ai.tool.call.id"
WORKFLOW_NAME: Final = "gen_ai.workflow.name"
TOKEN_TYPE: Final = "gen_ai.token.type"
SERVER_ADDRESS: Final = "server.address"
SERVER_PORT: Final = "server.port"
HTTP_STATUS: Final = "http.response.status_code"
ERROR_TYPE: Final = "error.type"
EXCEPTION_TYPE: Final = "exception.type"

# Attributes with content: sent only if the user asks for them.
SYSTEM_INSTRUCTIONS: Final = "gen_ai.system_instructions"
INPUT_MESSAGES: Final = "gen_ai.input.messages"
OUTPUT_MESSAGES: Final = "gen_ai.output.messages"
TOOL_ARGUMENTS: Final = "gen_ai.tool.call.arguments"
TOOL_RESULT: Final = "gen_ai.tool.call.result"
TOOL_DEFINITIONS: Final = "gen_ai.tool.definitions"
DETAILS_EVENT: Final = "gen_ai.client.inference.operation.details"

# Attributes of tau.
TURNS: Final = "tau.turns"
RETRIES: Final = "tau.retries"
COST: Final = "tau.cost"
COST_UNKNOWN: Final = "tau.cost_unknown"
STOP_REASON: Final = "tau.stop_reason"
ABORTED: Final = "tau.aborted"
BUDGET_LIMIT: Final = "tau.budget.limit"
MODE: Final = "tau.mode"
DIALECT: Final = "tau.dialect"
THINKING: Final = "tau.thinking"
ATTEMPT: Final = "tau.attempt"
API: Final = "tau.api"
TOOL_IS_ERROR: Final = "tau.tool.is_error"
TOOL_DENIED_BY: Final = "tau.tool.denied_by"
TOOL_EXIT_CODE: Final = "tau.tool.exit_code"
TOOL_OUTPUT_BYTES: Final = "tau.tool.output_bytes"
STATE: Final = "tau.state"
LOGGER: Final = "tau.logger"
FLEET_RUN, FLEET_TASK, FLEET_ATTEMPT, FLEET_OUTCOME = (
    f"tau.fleet.{name}" for name in ("run", "task", "attempt", "outcome")
)

# Events in spans.
EVENT_FIRST_CHUNK: Final = "tau.first_chunk"
EVENT_RETRY: Final = "tau.retry"
EVENT_STEERED: Final = "tau.steered"
EVENT_PERMISSION: Final = "tau.permission"
EVENT_SANDBOX: Final = "tau.sandbox"
RETRY_DELAY: Final = "tau.retry.delay"
RETRY_CLASS: Final = "tau.retry.class"
PERMISSION_ASKED: Final = "tau.permission.asked"
PERMISSION_ANSWER: Final = "tau.permission.answer"
PERMISSION_WAITED: Final = "tau.permission.waited"
SANDBOX_LEVEL: Final = "tau.sandbox.level"

# Metrics: name, unit, description.
TOKEN_USAGE: Final = ("gen_ai.client.token.usage", "{token}", "Tokens of a request to a model")
OPERATION_DURATION: Final = ("gen_ai.client.operation.duration", "s", "Duration of a request to a model")
TIME_TO_FIRST_CHUNK: Final = ("gen_ai.client.operation.time_to_first_chunk", "s", "Until the first piece of an answer")
TIME_PER_CHUNK: Final = ("gen_ai.client.operation.time_per_output_chunk", "s", "Between two pieces of an answer")
AGENT_DURATION: Final = ("gen_ai.invoke_agent.duration", "s", "Duration of a run")
TOOL_DURATION: Final = ("gen_ai.execute_tool.duration", "s", "Duration of a tool call")
COST_METRIC: Final = ("tau.cost", "{dollar}", "Cost of requests to models")
SESSIONS: Final = ("tau.sessions", "{session}", "Open sessions")
RUNS: Final = ("tau.runs", "{run}", "Active runs")
RETRIES_METRIC: Final = ("tau.retries", "{retry}", "Repeated requests to models")
DENIALS: Final = ("tau.denials", "{call}", "Tool calls that were denied")
BUDGET_EXCEEDED: Final = ("tau.budget.exceeded", "{run}", "Runs that a budget stopped")

TOKEN_BUCKETS: Final = [float(4**power) for power in range(14)]  # 1 to 67,108,864
SECOND_BUCKETS: Final = [0.01 * 2**power for power in range(14)]  # 0.01 to 81.92

# tau's names of providers where the conventions have others.
PROVIDER_NAMES: Final = {
    "anthropic": "anthropic",
    "openai": "openai",
    "openai-codex": "openai",
    "azure-openai": "azure.ai.openai",
    "azure-openai-responses": "azure.ai.openai",
    "google": "gcp.gemini",
    "google-gemini-cli": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "amazon-bedrock": "aws.bedrock",
    "mistral": "mistral_ai",
    "deepseek": "deepseek",
    "groq": "groq",
    "xai": "x_ai",
    "moonshotai": "moonshot_ai",
    "moonshot": "moonshot_ai",
    "perplexity": "perplexity",
    "cohere": "cohere",
}
OTHER: Final = "_OTHER"


def provider_name(provider: str) -> str:
    return PROVIDER_NAMES.get(provider, provider)
