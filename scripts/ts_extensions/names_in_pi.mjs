// Loads extensions with real pi and prints what each registers, as one JSON object per line.
//
//     node names_in_pi.mjs PACKAGE_FOLDER_OF_PI FILE...

import { pathToFileURL } from "node:url";
import { join } from "node:path";

const [pi, ...files] = process.argv.slice(2);
const { discoverAndLoadExtensions } = await import(pathToFileURL(join(pi, "dist/index.js")).href);

for (const file of files) {
  const found = await discoverAndLoadExtensions([file], "/nowhere", "/nowhere");
  const [extension] = found.extensions;
  const names = (map) => (map ? [...map.keys()].sort() : []);
  const told = extension
    ? {
        tools: names(extension.tools),
        commands: names(extension.commands),
        flags: names(extension.flags),
        handlers: names(extension.handlers),
      }
    : { error: found.errors[0]?.error ?? "not loaded" };
  console.log(JSON.stringify({ file, ...told }));
}
process.exit(0);
