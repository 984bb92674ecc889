// Messages of a session as a model receives them, and as text.

export const COMPACTION_SUMMARY_PREFIX =
  "The conversation history before this point was compacted into the following summary:\n\n<summary>\n";
export const COMPACTION_SUMMARY_SUFFIX = "\n</summary>";
export const BRANCH_SUMMARY_PREFIX =
  "The following is a summary of a branch that this conversation came back from:\n\n<summary>\n";
export const BRANCH_SUMMARY_SUFFIX = "</summary>";

export function bashExecutionToText({ command, output, exitCode, cancelled, truncated, fullOutputPath }) {
  let text = `Ran \`${command}\`\n`;
  text += output ? `\`\`\`\n${output}\n\`\`\`` : "(no output)";
  if (cancelled) text += "\n\n(command cancelled)";
  else if (exitCode !== undefined && exitCode !== null && exitCode !== 0) text += `\n\nCommand exited with code ${exitCode}`;
  if (truncated && fullOutputPath) text += `\n\n[Output truncated. Full output: ${fullOutputPath}]`;
  return text;
}

function user(text, timestamp) {
  return { role: "user", content: [{ type: "text", text }], timestamp };
}

export function convertToLlm(messages) {
  return messages.flatMap((message) => {
    switch (message.role) {
      case "bashExecution":
        return message.excludeFromContext ? [] : [user(bashExecutionToText(message), message.timestamp)];
      case "custom": {
        const content = typeof message.content === "string" ? [{ type: "text", text: message.content }] : message.content;
        return [{ role: "user", content, timestamp: message.timestamp }];
      }
      case "branchSummary":
        return [user(BRANCH_SUMMARY_PREFIX + message.summary + BRANCH_SUMMARY_SUFFIX, message.timestamp)];
      case "compactionSummary":
        return [user(COMPACTION_SUMMARY_PREFIX + message.summary + COMPACTION_SUMMARY_SUFFIX, message.timestamp)];
      case "user":
      case "assistant":
      case "toolResult":
        return [message];
      default:
        return [];
    }
  });
}

const MAX_RESULT = 2000; // characters of a tool result

function textOf(content) {
  if (typeof content === "string") return content;
  return (content ?? []).filter((block) => block.type === "text").map((block) => block.text).join("");
}

/** The conversation as text, for a summary. */
export function serializeConversation(messages) {
  const parts = [];
  for (const message of messages) {
    if (message.role === "user") {
      const text = textOf(message.content);
      if (text) parts.push(`[User]: ${text}`);
    } else if (message.role === "assistant") parts.push(...assistantParts(message.content ?? []));
    else if (message.role === "toolResult") {
      const text = textOf(message.content);
      if (text) parts.push(`[Tool result]: ${shortened(text)}`);
    }
  }
  return parts.join("\n\n");
}

function assistantParts(content) {
  const thinking = content.filter((block) => block.type === "thinking").map((block) => block.thinking);
  const texts = content.filter((block) => block.type === "text").map((block) => block.text);
  const calls = content
    .filter((block) => block.type === "toolCall")
    .map(({ name, arguments: given }) => {
      const list = Object.entries(given ?? {}).map(([key, value]) => `${key}=${JSON.stringify(value)}`);
      return `${name}(${list.join(", ")})`;
    });
  return [
    ...(thinking.length ? [`[Assistant thinking]: ${thinking.join("\n")}`] : []),
    ...(texts.length ? [`[Assistant]: ${texts.join("\n")}`] : []),
    ...(calls.length ? [`[Assistant tool calls]: ${calls.join("; ")}`] : []),
  ];
}

function shortened(text) {
  return text.length <= MAX_RESULT ? text : `${text.slice(0, MAX_RESULT)}\n\n[... ${text.length - MAX_RESULT} more characters truncated]`;
}

/** About four characters are a token. */
export function estimateTokens(message) {
  const { content } = message;
  let chars = 0;
  if (typeof content === "string") chars = content.length;
  else {
    for (const block of content ?? []) {
      if (block.type === "text") chars += block.text.length;
      else if (block.type === "thinking") chars += block.thinking.length;
      else if (block.type === "toolCall") chars += block.name.length + JSON.stringify(block.arguments).length;
      else if (block.type === "image") chars += 4800;
    }
  }
  if (message.role === "bashExecution") chars = message.command.length + message.output.length;
  if (message.summary) chars = message.summary.length;
  return Math.ceil(chars / 4);
}

export function calculateContextTokens(usage) {
  return usage.totalTokens || usage.input + usage.output + usage.cacheRead + usage.cacheWrite;
}

export function getLastAssistantUsage(entries) {
  const entry = entries.findLast(
    ({ type, message }) =>
      type === "message" && message.role === "assistant" && message.usage && !["aborted", "error"].includes(message.stopReason),
  );
  return entry?.message.usage;
}
