// Model calls through tau, and the conversion between the events of pi's streams and the chunks of tau's protocol.

import { createAssistantMessageEventStream } from "./event_stream.mjs";

/** The chunks for each event of a stream of pi. Throws the error that ends the stream. */
export async function* chunksOf(stream) {
  for await (const event of stream) {
    if (event.type === "text_delta") yield [{ type: "text", delta: event.delta }];
    else if (event.type === "thinking_delta") yield [{ type: "thinking", delta: event.delta }];
    else if (event.type === "thinking_end") {
      const signature = event.partial?.content?.[event.contentIndex]?.thinkingSignature;
      if (signature) yield [{ type: "thinking", delta: "", signature }];
    } else if (event.type === "toolcall_end") {
      const { id, name, arguments: given } = event.toolCall;
      yield [{ type: "tool_call", id, name, arguments: given }];
    } else if (event.type === "done") {
      const { usage } = event.message ?? {};
      const chunks = usage ? [usageChunk(usage)] : [];
      yield [...chunks, { type: "done", stopReason: event.reason === "deferred" ? "stop" : event.reason }];
      return;
    } else if (event.type === "error") {
      throw new Error(event.error?.errorMessage ?? "The model call failed");
    }
  }
}

function usageChunk({ input = 0, output = 0, cacheRead = 0, cacheWrite = 0 }) {
  return { type: "usage", input, output, cacheRead, cacheWrite };
}

/** Makes a model call with tau's keys, retries and recording. */
export async function completeThrough(extension, model, context, options = {}) {
  try {
    const message = await extension.act("complete", callOf(model, context, options), { signal: options.signal });
    return message ?? failedMessage(model, "Request was aborted", true);
  } catch (error) {
    return failedMessage(model, error.message, options.signal?.aborted);
  }
}

export function streamThrough(extension, model, context, options = {}) {
  const stream = createAssistantMessageEventStream();
  const { signal } = options;
  const params = { ...callOf(model, context, options), stream: true };
  const receive = (event) => stream.push(event);
  extension.act("complete", params, { signal, receive }).then(
    (answer) => {
      const message = answer ?? failedMessage(model, "Request was aborted", true);
      const failed = message.stopReason === "error" || message.stopReason === "aborted";
      if (failed) stream.push({ type: "error", reason: message.stopReason, error: message });
      else stream.push({ type: "done", reason: message.stopReason, message });
      stream.end(message);
    },
    (error) => {
      const message = failedMessage(model, error.message, signal?.aborted);
      stream.push({ type: "error", reason: message.stopReason, error: message });
      stream.end(message);
    },
  );
  return stream;
}

function callOf(model, context, { apiKey, maxTokens, reasoning }) {
  return {
    model,
    context: {
      systemPrompt: context.systemPrompt,
      messages: context.messages ?? [],
      tools: (context.tools ?? []).map(({ name, description, parameters }) => ({ name, description, parameters })),
    },
    options: { apiKey, maxTokens, reasoning },
  };
}

function failedMessage(model, errorMessage, aborted) {
  const zero = { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, total: 0 };
  return {
    role: "assistant",
    content: [],
    api: model.api,
    provider: model.provider,
    model: model.id,
    usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0, cost: zero },
    stopReason: aborted ? "aborted" : "error",
    errorMessage,
    timestamp: Date.now(),
  };
}
