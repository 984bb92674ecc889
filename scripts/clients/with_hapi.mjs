// node with_hapi.mjs PROGRAM: hapi: a hub on loopback, a session of `hapi pi`, and what a phone sends to the hub.
import { spawn } from "node:child_process";
import { createServer } from "node:net";
import { join } from "node:path";
import { expect, step } from "./steps.mjs";

const WITHIN = 30_000;
const [program] = process.argv.slice(2);
const probe = createServer().listen(0, "127.0.0.1");
await new Promise((resolve) => probe.once("listening", resolve));
const { port } = probe.address();
await new Promise((resolve) => probe.close(resolve));

const token = "a-token-of-this-run-only-0123456789abcdef";
const hub = `http://127.0.0.1:${port}`;
const env = {
  ...process.env,
  HAPI_HOME: join(process.env.HOME, "hapi"),
  HAPI_API_URL: hub,
  HAPI_LISTEN_PORT: String(port),
  CLI_API_TOKEN: token,
};
const started = [];
const start = (...args) => started.push(spawn(program, args, { env, stdio: ["ignore", 2, 2] }));

async function until(what, look) {
  for (const end = Date.now() + WITHIN; Date.now() < end; ) {
    const found = await look().catch(() => undefined);
    if (found) return found;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  throw new Error(`not within ${WITHIN} ms: ${what}`);
}

let key;
async function call(method, path, body) {
  const headers = { "content-type": "application/json", authorization: `Bearer ${key}` };
  const answer = await fetch(`${hub}/api${path}`, { method, headers, body: body && JSON.stringify(body) });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.json();
}

let session;
const shown = async () => JSON.stringify(await call("GET", `/sessions/${session}/messages`));
const idle = async () => (await call("GET", `/sessions/${session}`)).session.thinking === false;
const send = (text) => call("POST", `/sessions/${session}/messages`, { text, localId: crypto.randomUUID() });

await step("prompt", async () => {
  start("hub");
  await until("the hub", async () => (await fetch(`${hub}/`)).status > 0);
  key = (await call("POST", "/auth", { accessToken: token })).token;
  start("pi");
  session = await until("a session", async () => (await call("GET", "/sessions")).sessions.find((one) => one.active)?.id);
  await send("read hello.txt");
  await until("the answer", async () => (await shown()).includes("It says: written for the clients"));
  await until("idle", idle);
});

await step("abort", async () => {
  await send("never end");
  await until("a run", async () => (await call("GET", `/sessions/${session}`)).session.thinking === true);
  await call("POST", `/sessions/${session}/abort`, {});
  await until("idle", idle);
});

await step("models", async () => {
  expect(JSON.stringify(await call("GET", `/sessions/${session}/pi-models`)).includes('"m1"'), true);
});

await step("compact", async () => {
  await send("say one more");
  await until("the answer", async () => (await shown()).includes("one more"));
  await until("idle", idle);
  await send("/compact");
  await until("the end of the compaction", async () => /compact(ed|ion)[^"]*(done|complete|finish|ed)/i.test(await shown()));
});

for (const one of started) one.kill("SIGTERM");
process.exit(0);
