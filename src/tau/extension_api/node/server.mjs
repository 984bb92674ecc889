// The host: receives the messages of all extensions, loads them one after the other, and attributes failures.

import { fileURLToPath } from "node:url";
import { Channel } from "./channel.mjs";
import { remember } from "./current.mjs";
import { Extension, StaleError, errorText } from "./extension.mjs";
import { currentCall } from "./scope.mjs";
import { lazy } from "./lazy.mjs";
import { installHooks, useCode } from "./loading.mjs";
import { optimizeLater } from "./optimizing.mjs";

const theme = lazy("./theme.mjs");
const extensions = new Map();
const channel = new Channel();
let loading = Promise.resolve();
let staleTold = false;

export function serve() {
  process.on("uncaughtException", (error) => report(error));
  process.on("unhandledRejection", (error) => report(error));
  for (const signal of ["SIGINT", "SIGHUP"]) process.on(signal, () => {}); // tau handles them
  const parent = process.ppid;
  setInterval(() => process.ppid !== parent && process.exit(0), 1000).unref();
  // A program that an extension starts as this one is tau.
  process.env.TAU_PYTHON = process.argv[2];
  process.argv = [process.argv[0], fileURLToPath(new URL("./pi.mjs", import.meta.url))];
  installHooks();
  optimizeLater();
  channel.listen(receive, () => process.exit(0));
  channel.send(0, { type: "ready", version: process.version });
}

function receive(number, message) {
  if (number === 0) {
    if (message.type === "exit") process.exit(0);
    return;
  }
  if (message.type === "code") return useCode(message.code);
  if (message.type === "load") {
    const extension = new Extension(number, channel, message);
    if (message.mode === "tui") theme().useTerminalTheme();
    return start(number, extension).then(() => channel.send(0, { type: "loading_done", number }));
  }
  const extension = extensions.get(number);
  if (extension === undefined) return;
  if (message.type === "renew") return start(number, extension.renewed());
  if (message.type === "stop" || message.type === "close") {
    extensions.delete(number);
    extension.end();
    channel.send(0, { type: "closed", number });
    return;
  }
  extension.received(message);
}

function start(number, extension) {
  extensions.set(number, extension);
  remember(extension);
  return (loading = loading.then(() => extension.load()));
}

/** Reports a failure outside of any call: to the extension whose code is nearest on the stack, or started it, or to all. */
function report(error) {
  if (error instanceof StaleError) {
    if (!staleTold) process.stderr.write(`${error.stack}\n`); // a timer fails at every tick
    staleTold = true;
    return;
  }
  const known = [...extensions.values()];
  const nearest = known
    .map((extension) => ({ extension, frame: extension.frameOf(error) }))
    .filter(({ frame }) => frame !== undefined)
    .sort((one, other) => one.frame.depth - other.frame.depth || other.extension.root.length - one.extension.root.length)[0];
  const owner = nearest?.extension ?? currentCall.getStore()?.extension;
  for (const extension of owner ? [owner] : known) {
    const where = extension.locate(error);
    extension.send({ type: "trouble", error: errorText(error) + (where ? ` (${where})` : ""), event: "task" });
  }
}
