// The module pi-coding-agent, for extensions: what tau has of it, and a sentence for what it does not.

export * from "../coding_agent.mjs";
export * from "../tool_factories.mjs";
export * from "../tool_types.mjs";
export { BorderedLoader, CustomEditor, DynamicBorder } from "../widgets.mjs";
export { CONFIG_DIR_NAME } from "../folders.mjs";
export { DEFAULT_MAX_BYTES, DEFAULT_MAX_LINES, formatSize, GREP_MAX_LINE_LENGTH, truncateHead, truncateLine, truncateTail } from "../truncation.mjs";
export { SettingsManager } from "../settings_manager.mjs";
export { Theme } from "../theme.mjs";
export { bashExecutionToText, calculateContextTokens, convertToLlm, estimateTokens, getLastAssistantUsage, serializeConversation } from "../conversations.mjs";
export { buildContextEntries, buildSessionContext, CURRENT_SESSION_VERSION, getLatestCompactionEntry, parseSessionEntries, sessionEntryToContextMessages, SessionManager } from "../session_files.mjs";
export { formatSkillsForPrompt, loadSkills, loadSkillsFromDir } from "../skills.mjs";
export { generateBranchSummary, generateSummary } from "../summaries.mjs";
export { generateDiffString, generateUnifiedPatch } from "../diffs.mjs";
export { parseFrontmatter, stripFrontmatter } from "../frontmatter.mjs";
