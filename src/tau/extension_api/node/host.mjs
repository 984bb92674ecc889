// Entry of the Node process that runs TypeScript and JavaScript extensions: node host.mjs
//
// Descriptor 3 carries the answers to synchronous reads, descriptor 4 all other messages. This file runs on old
// versions of Node too, to say that they are too old; everything else is imported afterwards.

const REQUIRED = [22, 18];
const version = process.versions.node.split(".").map(Number);
const supported = version[0] > REQUIRED[0] || (version[0] === REQUIRED[0] && version[1] >= REQUIRED[1]);

const other = ["bun", "deno"].find((name) => process.versions[name]);

if (supported && !other) {
  // Not import(): it reads files in other threads, which costs time and memory.
  process.getBuiltinModule("node:module").createRequire(import.meta.url)("./server.mjs").serve();
} else {
  const program = other ? `${other} ${process.versions[other]}` : `Node ${process.versions.node}`;
  const { writeSync } = await import("node:fs");
  writeSync(4, `0 ${JSON.stringify({ type: "unsupported", program })}\n`);
}
