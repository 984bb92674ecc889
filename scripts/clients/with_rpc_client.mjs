// node with_rpc_client.mjs PACKAGE_FOLDER SHIM: pi's own RpcClient, of any release that has one.
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, step } from "./steps.mjs";

const [folder, shim] = process.argv.slice(2);
// The file itself, not the package: that would load all of pi, and need the node that pi needs.
const { RpcClient } = await import(pathToFileURL(join(folder, "dist/modes/rpc/rpc-client.js")).href);

const WITHIN = 20_000;
const client = new RpcClient({ cliPath: shim });

await client.start();

await step("prompt", async () => {
  const events = await client.promptAndWait("read hello.txt", undefined, WITHIN);
  const done = events.filter((event) => event.type === "tool_execution_end");
  expect(done.map((event) => [event.toolName, event.isError]), [["read", false]]);
  const pieces = events.filter((event) => event.assistantMessageEvent?.type === "text_delta");
  expect(pieces.map((event) => event.assistantMessageEvent.delta).join(""), "It says: written for the clients");
  expect(await client.getLastAssistantText(), "It says: written for the clients");
});

await step("abort", async () => {
  const aborted = new Promise((resolve, reject) => {
    const stop = client.onEvent((event) => {
      if (event.assistantMessageEvent?.type !== "text_delta") return;
      stop();
      client.abort().then(resolve, reject);
    });
  });
  const events = await client.promptAndWait("never end", undefined, WITHIN);
  await aborted;
  const said = events.filter((event) => event.type === "message_end" && event.message.role === "assistant");
  expect(said.map((event) => event.message.stopReason), ["aborted"]);
  expect((await client.getState()).isStreaming, false);
});

await step("bash", async () => {
  const { output, exitCode, cancelled, truncated } = await client.bash("echo from-the-shell");
  expect([output.trim(), exitCode, cancelled, truncated], ["from-the-shell", 0, false, false]);
});

await step("methods", async () => {
  const [path, other] = [join(process.cwd(), "session.html"), (await client.getState()).sessionFile];
  const calls = {
    newSession: [[], { cancelled: false }],
    prompt: [["read hello.txt"], "started"],
    followUp: [["first"], "queued"],
    steer: [["second"], "queued"],
    clearQueue: [[]],
    waitForIdle: [[WITHIN]],
    getMessages: [[]],
    getLastAssistantText: [[]],
    getState: [[]],
    getSessionStats: [[]],
    getCommands: [[]],
    getEntries: [[]],
    getTree: [[]],
    getForkMessages: [[]],
    getAvailableModels: [[]],
    getAvailableThinkingLevels: [[], ["off"]],
    setModel: [["loopback", "m1"]],
    cycleModel: [[], null],
    setThinkingLevel: [["off"]],
    cycleThinkingLevel: [[], null],
    setSteeringMode: [["all"]],
    setFollowUpMode: [["all"]],
    setAutoCompaction: [[false]],
    setAutoRetry: [[false]],
    abortRetry: [[]],
    bash: [["true"]],
    abortBash: [[]],
    setSessionName: [["by the client"]],
    exportHtml: [[path], { path }],
    clone: [[], { cancelled: false }],
    switchSession: [[other], { cancelled: false }],
    fork: [[]],
    compact: [[]],
    abort: [[]],
  };
  const own = ["constructor", "start", "stop", "onEvent", "getStderr", "collectEvents", "promptAndWait"];
  const inner = ["handleLine", "createProcessExitError", "rejectPendingRequests", "send", "getData"];
  const names = Object.getOwnPropertyNames(RpcClient.prototype);
  expect(names.filter((name) => !(name in calls || own.includes(name) || inner.includes(name))), []);
  const dispositions = RpcClient.prototype.prompt.toString().includes("disposition");
  let idle = null;
  for (const [name, [values, wanted]] of Object.entries(calls)) {
    if (!names.includes(name)) continue;
    if (name === "prompt") idle = client.waitForIdle(WITHIN); // the run may be over before its turn in this list
    if (name === "fork") values.push((await client.getForkMessages())[0].entryId);
    let found;
    try {
      found = name === "waitForIdle" ? await idle : await client[name](...values);
    } catch (error) {
      if (name === "compact" && error.message.startsWith("Nothing to compact")) continue;
      throw new Error(`${name}: ${error.message}`);
    }
    const returns = dispositions || !["prompt", "steer", "followUp"].includes(name);
    if (wanted !== undefined && returns) expect([name, found], [name, wanted]);
  }
});

await client.stop();
