// node with_rpc_client.mjs PACKAGE_FOLDER SHIM: pi's own RpcClient, of any release that has one.
import { join } from "node:path";
import { pathToFileURL } from "node:url";

const [folder, shim] = process.argv.slice(2);
// The file itself, not the package: that would load all of pi, and need the node that pi needs.
const { RpcClient } = await import(pathToFileURL(join(folder, "dist/modes/rpc/rpc-client.js")).href);

const WITHIN = 20_000;
const client = new RpcClient({ cliPath: shim });

async function step(name, work) {
  let problem = "";
  try {
    await work();
  } catch (error) {
    problem = `${error.name}: ${error.message}`;
  }
  console.log(JSON.stringify({ step: name, problem }));
}

function expect(found, wanted) {
  const [left, right] = [JSON.stringify(found), JSON.stringify(wanted)];
  if (left !== right) throw new Error(`${left} instead of ${right}`);
}

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

await client.stop();
