// Definitions of tools and the kinds of their events: what most extensions import of the module pi-coding-agent.

export const defineTool = (tool) => tool;
export const isToolCallEventType = (name, event) => event.toolName === name;
const isResultOf = (name) => (event) => event.toolName === name;
export const isBashToolResult = isResultOf("bash");
export const isReadToolResult = isResultOf("read");
export const isEditToolResult = isResultOf("edit");
export const isWriteToolResult = isResultOf("write");
export const isGrepToolResult = isResultOf("grep");
export const isFindToolResult = isResultOf("find");
export const isLsToolResult = isResultOf("ls");
export const isPowerShellToolResult = isResultOf("powershell");
