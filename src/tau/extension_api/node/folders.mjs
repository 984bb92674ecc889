// Folders of tau and pi.

import { homedir } from "node:os";
import { join, resolve } from "node:path";
import { currentExtension } from "./current.mjs";

export const CONFIG_DIR_NAME = ".pi";

export function agentDir() {
  try {
    return currentExtension().agentDir;
  } catch {
    const named = process.env.PI_CODING_AGENT_DIR;
    return named ? resolve(named.replace(/^~(?=$|\/)/, homedir())) : join(homedir(), CONFIG_DIR_NAME, "agent");
  }
}
