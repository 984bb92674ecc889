// A provider: a model without a server, which answers with the last prompt in capital letters.
//
//     tau -e examples/extensions/typescript/shout_provider.ts --model shout/loud

import { type AssistantMessage, createAssistantMessageEventStream } from "@earendil-works/pi-ai";
import type { ExtensionAPI } from "@earendil-works/pi-coding-agent";

export default function (pi: ExtensionAPI) {
  pi.registerProvider("shout", {
    baseUrl: "http://127.0.0.1", // not used: the function below answers
    apiKey: "none",
    api: "shout-api",
    models: [
      {
        id: "loud",
        name: "Loud",
        reasoning: false,
        input: ["text"],
        cost: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0 },
        contextWindow: 32_000,
        maxTokens: 1_000,
      },
    ],
    streamSimple(model, context) {
      const stream = createAssistantMessageEventStream();
      const last = context.messages.findLast((message) => message.role === "user");
      const blocks = typeof last?.content === "string" ? [{ type: "text", text: last.content }] : (last?.content ?? []);
      const text = blocks.map((block) => ("text" in block ? block.text : "")).join(" ").toUpperCase();
      const message = {
        role: "assistant",
        content: [{ type: "text", text }],
        api: model.api,
        provider: model.provider,
        model: model.id,
        usage: { input: 0, output: 0, cacheRead: 0, cacheWrite: 0, totalTokens: 0 },
        stopReason: "stop",
        timestamp: Date.now(),
      } as unknown as AssistantMessage;
      queueMicrotask(() => {
        stream.push({ type: "text_delta", contentIndex: 0, delta: text, partial: message });
        stream.push({ type: "done", reason: "stop", message });
      });
      return stream;
    },
  });
}
