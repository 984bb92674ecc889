// The module pi-ai: schemas, streams, and model calls through tau.

import { currentExtension } from "../current.mjs";
import { completeThrough, streamThrough } from "../model_calls.mjs";
import { Type } from "./typebox.mjs";

export { AssistantMessageEventStream, createAssistantMessageEventStream, EventStream } from "../event_stream.mjs";
export { Type };

export function StringEnum(values, options) {
  const { description, default: preset } = options ?? {};
  return Type.Unsafe({
    type: "string",
    enum: [...values],
    ...(description ? { description } : {}),
    ...(preset ? { default: preset } : {}),
  });
}

let last = 0n;

/** A version 7 UUID: sortable by time. */
export function uuidv7() {
  const now = BigInt(Date.now()) << 12n;
  last = now > last ? now : last + 1n;
  const time = (last >> 12n).toString(16).padStart(12, "0");
  const count = (last & 0xfffn).toString(16).padStart(3, "0");
  const random = crypto.getRandomValues(new Uint8Array(8));
  random[0] = (random[0] & 0x3f) | 0x80;
  const rest = Buffer.from(random).toString("hex");
  return `${time.slice(0, 8)}-${time.slice(8)}-7${count}-${rest.slice(0, 4)}-${rest.slice(4)}`;
}

export function calculateCost(model, usage) {
  const rates = model.cost ?? {};
  const price = (kind) => ((rates[kind] ?? 0) / 1_000_000) * (usage[kind] ?? 0);
  const cost = { input: price("input"), output: price("output"), cacheRead: price("cacheRead"), cacheWrite: price("cacheWrite") };
  cost.total = cost.input + cost.output + cost.cacheRead + cost.cacheWrite;
  usage.cost = cost;
  return cost;
}

const LEVELS = ["off", "minimal", "low", "medium", "high", "xhigh", "max"];

export function getSupportedThinkingLevels(model) {
  if (!model?.reasoning) return ["off"];
  const map = model.thinkingLevelMap ?? {};
  return LEVELS.filter((level) => (level === "xhigh" || level === "max" ? map[level] != null : map[level] !== null));
}

export function clampThinkingLevel(model, level) {
  const supported = getSupportedThinkingLevels(model);
  if (supported.includes(level)) return level;
  const at = LEVELS.indexOf(level);
  const below = LEVELS.slice(0, Math.max(0, at)).reverse();
  return below.find((one) => supported.includes(one)) ?? supported[0] ?? "off";
}

/** Parses JSON of a model that may contain raw control characters or invalid escapes. */
export function parseJsonWithRepair(text) {
  try {
    return JSON.parse(text);
  } catch {
    const repaired = text.replace(/"(?:[^"\\]|\\[\s\S])*"/g, (part) =>
      part
        .replace(/[\u0000-\u001f]/g, (char) => JSON.stringify(char).slice(1, -1))
        .replace(/\\(?!["\\/bfnrtu])/g, "\\\\"),
    );
    return JSON.parse(repaired);
  }
}

export function parseStreamingJson(text) {
  if (!text?.trim()) return {};
  for (const end of ["", '"', "}", '"}', "]}", '"]}', "}}", '"}}']) {
    try {
      return parseJsonWithRepair(text + end);
    } catch {} // not enough yet
  }
  return {};
}

// Model calls

export function stream(model, context, options) {
  return streamThrough(currentExtension(), model, context, options);
}

export function complete(model, context, options) {
  return completeThrough(currentExtension(), model, context, options);
}

export { stream as streamSimple, complete as completeSimple };

export function getModels(provider) {
  return currentExtension()
    .read("get_models", { all: true })
    .filter((model) => provider === undefined || model.provider === provider);
}

export function getModel(provider, id) {
  return getModels(provider).find((model) => model.id === id);
}

export function getProviders() {
  return [...new Set(getModels().map((model) => model.provider))];
}

export function modelsAreEqual(one, other) {
  return Boolean(one && other && one.id === other.id && one.provider === other.provider);
}

const ENVIRONMENT_KEYS = {
  anthropic: ["ANTHROPIC_OAUTH_TOKEN", "ANTHROPIC_API_KEY"],
  openai: ["OPENAI_API_KEY"],
  google: ["GEMINI_API_KEY"],
  groq: ["GROQ_API_KEY"],
  xai: ["XAI_API_KEY"],
  mistral: ["MISTRAL_API_KEY"],
  openrouter: ["OPENROUTER_API_KEY"],
};

export function getEnvApiKey(provider) {
  return (ENVIRONMENT_KEYS[provider] ?? []).map((name) => process.env[name]).find(Boolean);
}

// Messages

// The rules for overflows in core/models/failures.py, with its words; a test compares both.
const OVERFLOW = /prompt (?:is )?too long|request_too_large|input is too long for requested model|input tokens exceeded|exceeds th(?:e|is) (?:model'?s )?context window|context window exceeded|exceeds (?:the )?(?:model'?s )?maximum context length|ContextWindowExceededError|input token count.*exceeds the maximum|maximum prompt length is [\d,]+|reduce the length of the messages|maximum context length is [\d,]+ tokens|exceeds the maximum allowed input length|input \([\d,]+ tokens\) is longer than the model'?s context length|exceeds the limit of [\d,]+|\b413\b.*failed to parse request|exceeds the available context size|greater than the context length|to keep the first [\d,]+ tokens when context|`inputs` tokens \+ `max_new_tokens` must be <=|`inputs` must have less than|tokens in request more than max tokens allowed|prompt.?超长|total length of all messages is too long|context window exceeds limit|exceeded model token limit|too large for model with [\d,]+ maximum context length|prompt has [\d,]+ tokens, but the configured context size is [\d,]+ tokens|exceeded (?:max )?context length|range of input length should be|model_context_window_exceeded|prompt exceeds max length|context.?length.?exceeded|tokens_limit_reached|too many tokens|token limit exceeded/i;
const THROTTLED = /throttling error:|service unavailable:|rate.?limit|too many requests|please wait|per.?minute/i;

function isOverflowText(text) {
  const status = /^[45]\d\d(?![\w.,-])/.exec(text)?.[0];
  if (status === "402" || text.includes("The newest message alone has")) return false;
  if (status === "413" || /request too large/i.test(text)) return true;
  return status !== "429" && OVERFLOW.test(text) && !THROTTLED.test(text);
}

export function isContextOverflow(message, contextWindow) {
  if (message.stopReason === "error") return isOverflowText(message.errorMessage ?? "");
  const { input = 0, cacheRead = 0 } = message.usage ?? {};
  return Boolean(contextWindow && message.stopReason === "stop" && input + cacheRead > contextWindow);
}

export function contentText(content) {
  if (typeof content === "string") return content;
  return (content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("\n");
}

export function getSystemMessageText(message) {
  return contentText(message.content);
}

export function getCurrentSystemPrompt(context) {
  if (typeof context?.systemPrompt === "string") return context.systemPrompt;
  const system = (context?.messages ?? []).filter((message) => message.role === "system");
  return system.length ? getSystemMessageText(system.at(-1)) : undefined;
}

export function getCurrentTools(context) {
  return context?.tools ?? [];
}

export function collapseSystemMessages(context) {
  const messages = (context.messages ?? []).filter((message) => message.role !== "system");
  return { ...context, systemPrompt: getCurrentSystemPrompt(context), messages };
}

export function validateToolArguments(tool, call) {
  return call.arguments;
}

// What needs pi itself

function refuse(name) {
  return () => {
    throw new Error(`${name} is not available: tau makes model calls itself; use complete or stream`);
  };
}

export const getApiProvider = refuse("getApiProvider");
export const getApiProviders = () => [];
export const registerApiProvider = () => {};
export const unregisterApiProviders = () => {};
export const resetApiProviders = () => {};
export const registerBuiltInApiProviders = () => {};
export const getOAuthProvider = () => undefined;
export const getOAuthProviders = () => [];
export const registerOAuthProvider = () => {};
export const getOAuthApiKey = async () => null;
export const anthropicMessagesApi = refuse("anthropicMessagesApi");
export const openAICompletionsApi = refuse("openAICompletionsApi");
export const openAIResponsesApi = refuse("openAIResponsesApi");
export const streamAnthropic = refuse("streamAnthropic");
export const streamOpenAICompletions = refuse("streamOpenAICompletions");
export const streamOpenAIResponses = refuse("streamOpenAIResponses");
export const streamSimpleAnthropic = refuse("streamSimpleAnthropic");
export const streamSimpleOpenAICompletions = refuse("streamSimpleOpenAICompletions");
export const streamSimpleOpenAIResponses = refuse("streamSimpleOpenAIResponses");
