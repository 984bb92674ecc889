// Commands that an extension runs itself, for example on another machine.

import { truncateTail } from "./truncation.mjs";

/** Runs a command with the `operations` of an extension; resolves to the result of a bash command. */
export async function runOperations(operations, { command, cwd }, call) {
  const parts = [];
  const onData = (data) => parts.push(Buffer.from(data));
  let exitCode;
  let cancelled = false;
  try {
    exitCode = (await operations.exec(command, cwd, { onData, signal: call.signal })).exitCode ?? undefined;
  } catch (error) {
    if (!call.signal.aborted && error?.message !== "aborted") throw error;
    cancelled = true;
  }
  const { content, truncated } = truncateTail(Buffer.concat(parts).toString("utf8"));
  return { output: content, exitCode, cancelled, truncated };
}
