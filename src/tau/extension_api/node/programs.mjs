// Runs programs for extensions, in the process group of the host, so that they end with it.

import { spawn } from "node:child_process";

const TERMINATE_MS = 5000; // between SIGTERM and SIGKILL

/** Runs a program without a shell. Resolves to {stdout, stderr, code, killed}; one that cannot be started has code 1. */
export function runProgram(command, args, { cwd, timeout, signal, env } = {}) {
  return new Promise((resolve) => {
    let stdout = "";
    let stderr = "";
    let killed = false;
    let timer;
    const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"], shell: false });
    const kill = () => {
      if (killed) return;
      killed = true;
      child.kill("SIGTERM");
      setTimeout(() => child.kill("SIGKILL"), TERMINATE_MS).unref();
    };
    const done = (code) => {
      clearTimeout(timer);
      signal?.removeEventListener("abort", kill);
      resolve({ stdout, stderr, code, killed });
    };
    child.stdout?.setEncoding("utf8").on("data", (text) => (stdout += text));
    child.stderr?.setEncoding("utf8").on("data", (text) => (stderr += text));
    child.on("error", () => done(1));
    child.on("close", (code) => done(code ?? 0));
    if (signal?.aborted) kill();
    else signal?.addEventListener("abort", kill, { once: true });
    if (timeout > 0) timer = setTimeout(kill, timeout);
  });
}

/** Kills a process group if this process ends first, however it ends. Returns a function that gives that up. */
function endWithHost(group) {
  const words = ["-c", 'read -r line; kill -KILL "-$1"', "sh", String(group)]; // its input ends with this process
  const watcher = spawn("/bin/sh", words, { detached: true, stdio: ["pipe", "ignore", "ignore"] });
  watcher.on("error", () => {}); // without a shell the command does not run either
  watcher.stdin?.on("error", () => {});
  watcher.unref();
  return () => watcher.kill("SIGKILL");
}

/** Runs a command of the shell, as the bash tool does. Output goes to `onData`; rejects when it is aborted. */
export function runShell(command, cwd, { onData, signal, timeout, env, shellPath } = {}) {
  return new Promise((resolve, reject) => {
    const child = spawn(shellPath ?? "/bin/bash", ["-c", command], {
      cwd,
      env: env ?? process.env,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    const release = child.pid === undefined ? () => {} : endWithHost(child.pid); // it is in a group of its own
    let reason;
    const kill = (why) => {
      reason ??= why;
      try {
        process.kill(-child.pid, "SIGKILL");
      } catch {} // it has ended
    };
    const abort = () => kill("aborted");
    const timer = timeout > 0 ? setTimeout(() => kill(`timeout:${timeout}`), timeout * 1000) : undefined;
    child.stdout.on("data", (data) => onData?.(data));
    child.stderr.on("data", (data) => onData?.(data));
    const end = () => {
      release();
      clearTimeout(timer);
      signal?.removeEventListener("abort", abort);
    };
    child.on("error", (error) => (end(), reject(error)));
    child.on("close", (exitCode) => {
      end();
      if (reason) reject(new Error(reason));
      else resolve({ exitCode });
    });
    if (signal?.aborted) abort();
    else signal?.addEventListener("abort", abort, { once: true });
  });
}
