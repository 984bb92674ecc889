// node with_reports.mjs PROGRAM ARGUMENT...: a program that reports what the sessions in pi's folder have cost, as JSON.
import { execFileSync } from "node:child_process";
import { symlinkSync, mkdirSync } from "node:fs";
import { homedir } from "node:os";
import { join } from "node:path";

// Two calls of the model, with 7 and 2 tokens each, in a session where these programs look for it.
mkdirSync(join(homedir(), ".pi"));
symlinkSync(process.env.PI_CODING_AGENT_DIR, join(homedir(), ".pi", "agent"));
execFileSync("pi", ["-p", "read hello.txt"], { stdio: ["ignore", "ignore", "inherit"] });

let problem = "";
try {
  const printed = execFileSync(process.execPath, process.argv.slice(2), { stdio: ["ignore", "pipe", "inherit"] });
  const report = JSON.parse(printed.toString());
  const found = {};
  const look = (value) => {
    if (value === null || typeof value !== "object") return;
    for (const [name, inner] of Object.entries(value)) {
      const kind = /^(total)?_?(input|output)Tokens$|^(input|output)$/i.exec(name);
      if (kind && typeof inner === "number") found[(kind[2] ?? kind[3]).toLowerCase()] ??= inner;
      look(inner);
    }
  };
  look(report);
  if (found.input !== 14 || found.output !== 4) problem = `${JSON.stringify(found)}: ${JSON.stringify(report).slice(0, 300)}`;
} catch (error) {
  problem = `${error.name}: ${error.message}`;
}
console.log(JSON.stringify({ step: "report", problem }));
