// Tools of an extension, as targets that tau can call.

import { context } from "./context.mjs";

export function toolSpec(tool) {
  return {
    label: tool.label ?? tool.name,
    description: tool.description ?? "",
    parameters: tool.parameters ?? { type: "object", properties: {} },
    promptSnippet: tool.promptSnippet,
    promptGuidelines: tool.promptGuidelines ?? [],
    executionMode: tool.executionMode,
    prepareArguments: tool.prepareArguments ? true : undefined,
  };
}

export function toolTarget(extension, tool) {
  return async (params, call) => {
    if ("prepare" in params) return tool.prepareArguments(params.prepare);
    const onUpdate = (partial) => call.update(resultOf(partial));
    const result = await tool.execute(params.toolCallId, params.arguments, call.signal, onUpdate, context(extension, call));
    return resultOf(result);
  };
}

function resultOf(result) {
  if (result === null || typeof result !== "object") return result;
  const { content, details, terminate, usage, addedToolNames } = result;
  return { content: content ?? [], details, terminate, usage, addedToolNames };
}
