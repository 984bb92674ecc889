// Functions of the module pi-coding-agent that make tau's own tools for extensions.

import { builtinTool, localShell } from "./builtin_tools.mjs";

const tool = (name) => (cwd, options) => builtinTool(name, cwd, options);
export const createBashTool = tool("bash");
export const createReadTool = tool("read");
export const createWriteTool = tool("write");
export const createEditTool = tool("edit");
export const createGrepTool = tool("grep");
export const createFindTool = tool("find");
export const createLsTool = tool("ls");
export const createBashToolDefinition = createBashTool;
export const createReadToolDefinition = createReadTool;
export const createWriteToolDefinition = createWriteTool;
export const createEditToolDefinition = createEditTool;
export const createGrepToolDefinition = createGrepTool;
export const createFindToolDefinition = createFindTool;
export const createLsToolDefinition = createLsTool;
export const createCodingTools = (cwd) => [createReadTool(cwd), createBashTool(cwd), createEditTool(cwd), createWriteTool(cwd)];
export const createReadOnlyTools = (cwd) => [createReadTool(cwd), createGrepTool(cwd), createFindTool(cwd), createLsTool(cwd)];
export const createLocalBashOperations = localShell;

export function getShellConfig(shellPath) {
  return { shell: shellPath ?? "/bin/bash", args: ["-c"] };
}
