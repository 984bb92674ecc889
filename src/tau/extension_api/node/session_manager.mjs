// `ctx.sessionManager`: synchronous reading of the session. What was read is kept until the session changes.

import { contextEntries, contextOf, treeOf } from "./session_context.mjs";

const managers = new WeakMap(); // one object per extension

export function sessionManager(extension) {
  let manager = managers.get(extension);
  if (!manager) managers.set(extension, (manager = create(extension)));
  return manager;
}

function create(extension) {
  let version = "";
  const kept = new Map();

  /** The answer of a read, asked for again only after a change of the session. */
  const read = (name, params) => {
    const now = `${extension.fact("sessionId")} ${extension.knownFact("leafId")} ${extension.knownFact("entryCount")}`;
    if (now !== version) {
      kept.clear();
      version = now;
    }
    const key = params === undefined ? name : `${name} ${JSON.stringify(params)}`;
    if (name !== "version" && !kept.has(key)) kept.set(key, extension.read(name, params ?? {}));
    return kept.get(key);
  };
  let known = []; // all entries of `session` so far: entries are only ever added
  let session;
  const entries = () => {
    read("version"); // forgets what depends on the entries, if they changed
    const id = extension.knownFact("sessionId");
    if (id !== session) [known, session] = [[], id];
    const count = extension.knownFact("entryCount");
    if (count === undefined || count !== known.length) {
      const added = extension.read("read_entries", { after: known.at(-1)?.id });
      known = known.concat(added);
    }
    return known;
  };
  const byId = () => {
    const list = entries();
    let index = kept.get("index");
    if (!index) kept.set("index", (index = new Map(list.map((entry) => [entry.id, entry]))));
    return index;
  };
  const branch = (fromId) => {
    const index = byId();
    const path = [];
    const start = fromId ?? extension.knownFact("leafId");
    for (let entry = index.get(start); entry; entry = index.get(entry.parentId)) path.push(entry);
    return path.reverse();
  };

  return {
    getCwd: () => extension.knownFact("cwd"),
    getSessionDir: () => extension.fact("sessionDir") ?? "",
    getSessionId: () => extension.fact("sessionId"),
    getSessionFile: () => extension.fact("sessionFile") ?? undefined,
    getSessionName: () => extension.fact("sessionName") ?? undefined,
    getLeafId: () => extension.fact("leafId") ?? null,
    getLeafEntry: () => byId().get(extension.fact("leafId")),
    getEntry: (id) => byId().get(id),
    getChildren: (id) => entries().filter((entry) => entry.parentId === id),
    getLabel: (id) => read("get_label", { id }) ?? undefined,
    getBranch: (fromId) => (entries(), branch(fromId)),
    getHeader: () => read("get_header"),
    getEntries: () => entries().slice(),
    getTree: () => treeOf(entries()),
    isPersisted: () => extension.fact("sessionFile") != null,
    buildContextEntries: () => (entries(), contextEntries(branch())),
    buildSessionContext: () => (entries(), contextOf(branch())),
  };
}
