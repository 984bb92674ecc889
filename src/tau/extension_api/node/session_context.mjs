// From the entries of a branch to the messages that a model would receive.

/** The entries that count: those before the last compaction are replaced by it. */
export function contextEntries(branch) {
  const at = branch.findLastIndex((entry) => entry.type === "compaction");
  if (at < 0) return [...branch];
  const compaction = branch[at];
  const first = branch.findIndex((entry) => entry.id === compaction.firstKeptEntryId);
  return [compaction, ...branch.slice(first < 0 ? at : first, at), ...branch.slice(at + 1)];
}

/** The messages of an entry; most entries have none. */
export function entryMessages(entry) {
  const timestamp = new Date(entry.timestamp).getTime();
  switch (entry.type) {
    case "message":
      return [entry.message];
    case "custom_message": {
      const { customType, content, display, details } = entry;
      return [{ role: "custom", customType, content, display, details, timestamp }];
    }
    case "branch_summary":
      return entry.summary ? [{ role: "branchSummary", summary: entry.summary, fromId: entry.fromId, timestamp }] : [];
    case "compaction":
      return [{ role: "compactionSummary", summary: entry.summary, tokensBefore: entry.tokensBefore, timestamp }];
    default:
      return [];
  }
}

/** Messages, model and thinking level at the end of a branch. */
export function contextOf(branch) {
  let model = null;
  let thinkingLevel = "off";
  for (const entry of branch) {
    if (entry.type === "model_change") model = { provider: entry.provider, modelId: entry.modelId };
    else if (entry.type === "thinking_level_change") thinkingLevel = entry.thinkingLevel;
    else if (entry.type === "message" && entry.message.role === "assistant") {
      model = { provider: entry.message.provider, modelId: entry.message.model };
    }
  }
  return { messages: contextEntries(branch).flatMap(entryMessages), thinkingLevel, model };
}

/** The entries as a tree, with their labels. */
export function treeOf(entries) {
  const nodes = new Map(entries.map((entry) => [entry.id, { entry, children: [] }]));
  for (const { type, targetId, label, timestamp } of entries) {
    if (type !== "label" || !nodes.has(targetId)) continue;
    const node = nodes.get(targetId);
    if (label) Object.assign(node, { label, labelTimestamp: timestamp });
    else {
      delete node.label;
      delete node.labelTimestamp;
    }
  }
  const roots = [];
  for (const node of nodes.values()) (nodes.get(node.entry.parentId)?.children ?? roots).push(node);
  return roots;
}
