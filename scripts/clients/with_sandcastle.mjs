// node with_sandcastle.mjs NODE_MODULES: sandcastle's provider for pi: its command line, and its parser of the output.
import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { expect, step } from "./steps.mjs";

const { pi } = await import(pathToFileURL(join(process.argv[2], "@ai-hero/sandcastle/dist/index.js")).href);
const agent = pi("loopback/m1", { thinking: "off" });

function run(prompt, resumeSession) {
  const { command, stdin } = agent.buildPrintCommand({ prompt, resumeSession });
  const done = spawnSync("sh", ["-c", command], { input: stdin, encoding: "utf8", timeout: 20_000 });
  return { code: done.status, events: done.stdout.split("\n").flatMap((line) => agent.parseStreamLine(line)) };
}

const of = (type, events) => events.filter((event) => event.type === type);
let session;

await step("prompt", () => {
  const { code, events } = run("run echo one");
  expect([code, of("result", events).at(-1)?.result], [0, "It says: one"]);
  expect(of("text", events).map(({ text }) => text).join(""), "It says: one");
  session = of("session_id", events)[0].sessionId;
});

await step("resume", () => {
  const { code, events } = run("say two", session);
  expect([code, of("result", events).at(-1)?.result], [0, "two"]);
  expect(of("session_id", events)[0].sessionId, session);
});

await step("error", () => {
  const { code, events } = run("refuse", session);
  expect([code, of("text", events).length], [0, 0]); // pi ends with 0, so sandcastle goes on
});
