// Starts tau under the name of pi: extensions that start "node process.argv[1]" mean the running agent.

import { spawn } from "node:child_process";

const program = ["-c", "from tau.cli.entry import pi; raise SystemExit(pi())"];
const child = spawn(process.env.TAU_PYTHON ?? "python3", [...program, ...process.argv.slice(2)], { stdio: "inherit" });
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(signal, () => child.kill(signal));
child.on("error", (error) => {
  process.stderr.write(`tau cannot be started: ${error.message}\n`);
  process.exit(1);
});
child.on("close", (code, signal) => process.exit(code ?? (signal ? 1 : 0)));
