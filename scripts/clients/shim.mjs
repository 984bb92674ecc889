// pi's RpcClient runs a JavaScript file with node. This is that file: it runs the `pi` on PATH instead.
import { spawn } from "node:child_process";

const pi = spawn("pi", process.argv.slice(2), { stdio: "inherit" });
for (const signal of ["SIGTERM", "SIGINT", "SIGHUP"]) process.on(signal, () => pi.kill(signal));
pi.on("error", (error) => {
  console.error(`pi could not be started: ${error.message}`);
  process.exit(127);
});
pi.on("exit", (code) => process.exit(code ?? 1));
