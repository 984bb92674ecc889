// Components as lines: renderers of tools and messages, widgets, header and footer in the terminal interface.

import { currentTheme } from "./theme.mjs";

/** Text as lines for the terminal interface, where [role] would be a tag. */
export function shownLines(lines) {
  return lines.map((line) => String(line).replace(/(?<!\x1b)\[(?=[A-Za-z/:][\w: ]*\])/g, "[["));
}

/** The lines that a component draws. Control sequences other than colours are tau's to remove. */
export function componentLines(component, width) {
  if (component === undefined || component === null) return undefined;
  if (typeof component === "string") return component.split("\n");
  return component.render(width).map((line) => String(line).trimEnd());
}

export function messageRendererTarget(render) {
  return ({ data, width, options }) => {
    const component = render(data, { expanded: options?.expanded ?? false, outputPad: 0 }, currentTheme());
    const lines = componentLines(component, width ?? 80);
    return lines ? shownLines(lines) : null;
  };
}

export function entryRendererTarget(render) {
  return ({ data, width, options }) => {
    const lines = componentLines(render(data, { expanded: options?.expanded ?? false }, currentTheme()), width ?? 80);
    return lines ? shownLines(lines) : null;
  };
}

export function toolRendererTarget(extension, tool) {
  const state = {}; // pi keeps one per call; here drawings do not depend on earlier ones
  return ({ part, data, width, options }) => {
    const context = renderContext(extension, state, part === "call" ? data : {}, options ?? {});
    const component =
      part === "call"
        ? tool.renderCall?.(data ?? {}, currentTheme(), context)
        : tool.renderResult?.(data, { expanded: context.expanded, isPartial: context.isPartial }, currentTheme(), context);
    const lines = componentLines(component, width ?? 80);
    return lines ? shownLines(lines) : null;
  };
}

function renderContext(extension, state, args, options) {
  return {
    args,
    toolCallId: "",
    invalidate() {},
    lastComponent: undefined,
    state,
    cwd: extension.knownFact("cwd"),
    executionStarted: true,
    argsComplete: true,
    isPartial: options.isPartial ?? false,
    expanded: options.expanded ?? false,
    showImages: false,
    isError: options.isError ?? false,
  };
}
