// Summaries of conversations by a model, for extensions that compact or leave branches themselves.

import { convertToLlm, serializeConversation } from "./conversations.mjs";
import { currentExtension } from "./current.mjs";
import { completeThrough } from "./model_calls.mjs";
import { entryMessages } from "./session_context.mjs";

const SYSTEM = "You summarize a conversation between a user and a coding agent. Reply with the summary only.";
const INSTRUCTIONS = `Summarize the conversation above so that another agent can continue without it. State the goal,
the decisions and constraints, what is done, what is open, and the exact names of files, functions and errors that matter.`;

/** {summary, usage} of messages; throws if the model fails. */
async function summarize(messages, model, options, previous) {
  const { customInstructions, replaceInstructions, signal, apiKey, streamFn, maxTokens } = options;
  const asked = replaceInstructions && customInstructions ? customInstructions : [INSTRUCTIONS, customInstructions].filter(Boolean).join("\n\n");
  const earlier = previous ? `<previous-summary>\n${previous}\n</previous-summary>\n\n` : "";
  const text = `<conversation>\n${serializeConversation(convertToLlm(messages))}\n</conversation>\n\n${earlier}${asked}`;
  const context = { systemPrompt: SYSTEM, messages: [{ role: "user", content: [{ type: "text", text }], timestamp: Date.now() }] };
  const settings = { signal, apiKey, maxTokens };
  const answer = streamFn
    ? await (await streamFn(model, context, settings)).result()
    : await completeThrough(currentExtension(), model, context, settings);
  if (answer.stopReason === "error" || answer.stopReason === "aborted") {
    throw new Error(answer.errorMessage ?? `The summary was ${answer.stopReason}`);
  }
  const summary = answer.content.filter((block) => block.type === "text").map((block) => block.text).join("\n");
  return { summary, usage: answer.usage };
}

/** The files that tool calls in messages have read and changed. */
function filesOf(messages) {
  const read = new Set();
  const modified = new Set();
  for (const message of messages) {
    for (const block of message.role === "assistant" ? (message.content ?? []) : []) {
      const path = block.type === "toolCall" ? block.arguments?.path : undefined;
      if (typeof path !== "string") continue;
      if (block.name === "read") read.add(path);
      else if (block.name === "write" || block.name === "edit") modified.add(path);
    }
  }
  return { readFiles: [...read].filter((path) => !modified.has(path)), modifiedFiles: [...modified] };
}

export async function generateBranchSummary(entries, options) {
  const messages = entries.flatMap(entryMessages);
  if (messages.length === 0) return { summary: "No content to summarize" };
  try {
    return { ...(await summarize(messages, options.model, options)), ...filesOf(messages) };
  } catch (error) {
    return options.signal?.aborted ? { aborted: true } : { error: error.message };
  }
}

/** A summary of messages for a compaction. */
export async function generateSummary(messages, model, reserveTokens, apiKey, headers, signal, customInstructions, previous) {
  const maxTokens = Math.floor(0.8 * (reserveTokens ?? 16384));
  const own = typeof apiKey === "string" ? apiKey : undefined;
  const settings = { signal: signal instanceof AbortSignal ? signal : undefined, customInstructions, apiKey: own, maxTokens };
  return (await summarize(messages, model, settings, previous)).summary;
}
