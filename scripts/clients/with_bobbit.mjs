// node with_bobbit.mjs PACKAGE_FOLDER SHIM: bobbit's bridge to pi, which brings extensions for all tools.
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, step } from "./steps.mjs";

const [folder, shim] = process.argv.slice(2);
process.env.BOBBIT_DIR = join(process.cwd(), "..", "bobbit");
const { RpcBridge } = await import(pathToFileURL(join(folder, "dist/server/agent/rpc-bridge.js")).href);
const tools = join(folder, "dist/server/defaults/tools");
const toolManager = { getExtensionPath: (group, file) => join(tools, group, file), getBuiltinToolsDir: () => tools };
const bridge = new RpcBridge({ cliPath: shim, cwd: process.cwd(), toolManager, initialModel: "loopback/m1" });
const heard = [];

function until(type) {
  return new Promise((resolve, reject) => {
    const limit = setTimeout(() => reject(new Error(`no ${type}`)), 20_000);
    const stop = bridge.onEvent((event) => {
      if (event.type !== type) return;
      clearTimeout(limit);
      stop();
      resolve(event);
    });
  });
}

async function prompt(text) {
  heard.length = 0;
  const end = until("agent_end");
  await bridge.prompt(text);
  await end;
  return heard.filter((event) => event.type === "tool_execution_end");
}

await bridge.start();
bridge.onEvent((event) => heard.push(event));

await step("prompt", async () => {
  await bridge.waitForReady();
  const done = await prompt("read hello.txt");
  expect(done.map((event) => [event.toolName, Boolean(event.isError)]), [["read", false]]);
});

await step("edit", async () => {
  writeFileSync("edited.txt", "one two\n");
  const edits = [{ oldText: "one", newText: "1" }, { oldText: "two", newText: "2" }];
  const done = await prompt(`call edit ${JSON.stringify({ path: "edited.txt", edits })}`);
  expect(done.map((event) => [event.toolName, Boolean(event.isError)]), [["edit", false]]);
  expect(readFileSync("edited.txt", "utf8"), "1 2\n");
});

await step("abort", async () => {
  const [begun, end] = [until("message_update"), until("agent_end")];
  await bridge.prompt("never end");
  await begun;
  await bridge.abort();
  expect((await end).messages.at(-1).stopReason, "aborted");
});

await bridge.stop();
process.exit(0);
