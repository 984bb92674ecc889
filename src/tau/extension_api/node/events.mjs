// Handlers of events: the event that they receive, and what they return or change in place.

import { context } from "./context.mjs";
import { lazy } from "./lazy.mjs";
import { withoutNulls } from "./session_values.mjs";

const operations = lazy("./operations.mjs");
// The events that tau sends. `pi.on` accepts any other name; its handler is never called.
const EVENTS = new Set(
  `session_start session_shutdown session_before_switch session_switch session_before_fork session_fork
  session_before_compact session_compact session_compact_failed session_before_tree session_tree session_info_changed
  resources_discover project_trust input before_agent_start agent_start agent_end agent_settled turn_start turn_end
  message_start message_update message_end tool_execution_start tool_execution_update tool_execution_end context
  before_provider_headers before_provider_request after_provider_response model_select thinking_level_select tool_call
  tool_result user_bash ui_prompt_start ui_prompt_end`.split(/\s+/),
);
// Fields that a handler may change in place, as well as by returning them.
const MUTABLE = {
  tool_call: "input",
  before_provider_headers: "headers",
  context: "messages",
  before_agent_start: "systemPromptOptions",
  before_provider_request: "payload",
};
// Hooks that can refuse, with the fields of their answers.
const GATES = { tool_call: ["block", "reason", "terminate", "input"], user_bash: ["operations", "result"] };
const WITH_SIGNAL = new Set(["session_before_compact", "session_before_tree"]);

export function isKnownEvent(name) {
  return EVENTS.has(name);
}

export function handlerTarget(extension, name, handler) {
  const field = MUTABLE[name];
  return async (params, call) => {
    const event = eventOf(name, params, call);
    const before = field && JSON.stringify(event[field]);
    const returned = await handler(event, context(extension, call));
    if (isUnclear(name, returned)) return returned; // tau refuses the call, and says why
    const result = answerOf(name, returned);
    if (name === "user_bash" && result?.operations) return { result: await operations().runOperations(result.operations, event, call) };
    if (!field) return result;
    const changed = JSON.stringify(event[field]) !== before;
    if (name === "before_provider_request") return result !== undefined ? result : changed ? event.payload : undefined;
    return changed && result?.[field] === undefined ? { ...result, [field]: event[field] } : result;
  };
}

/** True for an answer that can be meant to refuse, although pi would not notice it: a text, or unknown fields only. */
function isUnclear(name, result) {
  if (!GATES[name] || !result) return false;
  if (typeof result !== "object") return typeof result === "string";
  const fields = Object.keys(result);
  return fields.length > 0 && !fields.some((field) => GATES[name].includes(field));
}

/**
 * An answer as pi reads it: a value without fields is no answer, such as the `false` of `dangerous && { block: true }`,
 * and without `block` the call is not blocked.
 */
function answerOf(name, result) {
  if (!GATES[name]) return result;
  if (typeof result !== "object" || result === null) return undefined;
  return name === "tool_call" ? { ...result, block: Boolean(result.block) } : result;
}

function eventOf(name, params, call) {
  const event = { ...params };
  if (event.preparation) event.preparation = withoutNulls(event.preparation);
  if (name === "session_before_compact") {
    event.preparation.fileOps = fileOperations(event.preparation.fileOps);
    if (event.customInstructions === null) delete event.customInstructions;
  }
  if (WITH_SIGNAL.has(name)) event.signal = call.signal;
  if (name === "input" && event.images?.length === 0) delete event.images;
  if (name === "before_agent_start" && event.images?.length === 0) delete event.images;
  if (name === "tool_result" && event.details === null) event.details = undefined;
  return event;
}

/** The files that a compaction has collected, as the sets that pi has. */
function fileOperations(given) {
  const read = given?.readFiles ?? given?.read ?? [];
  const edited = given?.modifiedFiles ?? given?.edited ?? [];
  return { read: new Set(read), written: new Set(given?.written ?? []), edited: new Set(edited) };
}
