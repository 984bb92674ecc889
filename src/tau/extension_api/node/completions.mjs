// Completion functions of extensions, for the editor of the terminal interface.

const nothing = {
  getSuggestions: async () => null,
  applyCompletion: (lines, cursorLine, cursorCol) => ({ lines, cursorLine, cursorCol }),
};

/** A target that asks a completion provider of pi. Its fallback completes nothing: tau asks its own completion itself. */
export function completionsOf(factory) {
  const provider = factory(nothing);
  return async ({ lines, cursorLine, cursorColumn }, call) => {
    const found = await provider.getSuggestions(lines, cursorLine, cursorColumn, { signal: call.signal, force: false });
    if (!found?.items?.length) return null;
    const items = found.items.map(({ value, label, description }) => ({ value, label, description }));
    return { prefix: found.prefix ?? "", items };
  };
}
