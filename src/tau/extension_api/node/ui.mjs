// `ctx.ui`. Outside the terminal interface, what needs a screen is accepted and does nothing, as in pi's RPC mode; in
// the terminal interface, components that are only drawn are shown as lines.

import { lazy } from "./lazy.mjs";
import { componentLines, shownLines } from "./renderers.mjs";
import { currentTheme } from "./theme.mjs";

const completions = lazy("./completions.mjs");
const REFUSED = "This extension draws its own screen, which tau cannot show.";
const views = new WeakMap();

export function ui(extension) {
  let view = views.get(extension);
  if (!view) views.set(extension, (view = create(extension)));
  return view;
}

function create(extension) {
  const inTerminal = () => extension.knownFact("mode") === "tui";
  const terminal = (name, params) => {
    if (inTerminal()) extension.tell(name, params);
  };
  const components = new Map(); // what redraws a shown component, by place
  const dialog = (name, params, options) =>
    extension.knownFact("hasUI")
      ? extension.act(name, { ...params, timeout: options?.timeout }, { signal: options?.signal })
      : Promise.resolve(null);

  /** Shows a component of pi's terminal library as lines, now and when it asks to be drawn again. */
  const show = (place, factory, send, data) => {
    components.get(place)?.dispose?.();
    components.delete(place);
    const screen = drawingScreen(() => components.has(place) && send(componentLines(component, width())));
    const component = factory(screen, currentTheme(), data);
    components.set(place, component);
    send(componentLines(component, width()));
  };
  const remove = (place) => {
    components.get(place)?.dispose?.();
    components.delete(place);
  };
  const width = () => extension.knownFact("terminalWidth") ?? 80;
  let refusal = false;

  return {
    select: async (title, options, settings) => (await dialog("select", { title, options }, settings)) ?? undefined,
    confirm: async (title, message, settings) => (await dialog("confirm", { title, message }, settings)) === true,
    input: async (title, placeholder, settings) => (await dialog("input", { title, placeholder }, settings)) ?? undefined,
    editor: async (title, prefill) => (await dialog("editor", { title, prefill })) ?? undefined,
    notify(message, notifyType) {
      extension.tell("notify", { message: String(message), notifyType });
    },
    setStatus(statusKey, statusText) {
      extension.tell("set_status", { statusKey, statusText: inTerminal() ? shownLines([statusText ?? ""])[0] || undefined : statusText });
    },
    setWidget(widgetKey, content, options) {
      const send = (lines) => {
        const widgetLines = lines && inTerminal() ? shownLines(lines) : lines;
        extension.tell("set_widget", { widgetKey, widgetLines, widgetPlacement: options?.placement });
      };
      remove(`widget:${widgetKey}`);
      if (content === undefined || content === null || Array.isArray(content)) send(content ?? undefined);
      else if (inTerminal()) show(`widget:${widgetKey}`, content, send);
    },
    setTitle(title) {
      extension.tell("set_title", { title });
    },
    setEditorText(text) {
      extension.tell("set_editor_text", { text });
      if (inTerminal()) extension.assume("editorText", text);
    },
    pasteToEditor(text) {
      extension.tell(inTerminal() ? "paste_to_editor" : "set_editor_text", { text });
    },
    getEditorText: () => (inTerminal() ? (extension.fact("editorText") ?? "") : ""),
    setWorkingMessage: (message) => terminal("set_working_message", { message }),
    setWorkingVisible: (visible) => terminal("set_working_visible", { visible }),
    setWorkingIndicator: (options) => terminal("set_working_indicator", { frames: options?.frames, intervalMs: options?.intervalMs }),
    setHiddenThinkingLabel: (label) => terminal("set_hidden_thinking_label", { label }),
    setFooter(factory) {
      remove("footer");
      if (!inTerminal()) return;
      const send = (lines) => extension.tell("set_footer", { lines: lines && shownLines(lines) });
      if (factory) show("footer", factory, send, footerData(extension));
      else send(undefined);
    },
    setHeader(factory) {
      remove("header");
      if (!inTerminal()) return;
      const send = (lines) => extension.tell("set_header", { lines: lines && shownLines(lines) });
      if (factory) show("header", factory, send);
      else send(undefined);
    },
    async custom() {
      if (inTerminal() && !refusal) {
        refusal = true;
        extension.tell("notify", { message: `${extension.path}: ${REFUSED}`, notifyType: "warning" });
      }
      return undefined;
    },
    onTerminalInput: () => () => {},
    addAutocompleteProvider(factory) {
      if (inTerminal()) extension.register("autocomplete", extension.path, {}, completions().completionsOf(factory));
    },
    setEditorComponent() {},
    getEditorComponent: () => undefined,
    get theme() {
      return currentTheme();
    },
    getAllThemes: () => (inTerminal() ? (extension.fact("themes") ?? []).map(({ name, path }) => ({ name, path })) : []),
    getTheme: (name) => (inTerminal() && name === extension.fact("theme") ? currentTheme() : undefined),
    setTheme(theme) {
      if (!inTerminal()) {
        const error = extension.knownFact("hasUI") ? "Theme switching not supported in RPC mode" : "UI not available";
        return { success: false, error };
      }
      const name = typeof theme === "string" ? theme : theme.name;
      if (!(extension.fact("themes") ?? []).some((known) => known.name === name)) {
        return { success: false, error: `Theme not found: ${name}` };
      }
      extension.tell("set_theme", { theme: name });
      return { success: true };
    },
    getToolsExpanded: () => (inTerminal() ? (extension.fact("toolsExpanded") ?? false) : false),
    setToolsExpanded: (expanded) => terminal("set_tools_expanded", { expanded }),
  };
}

/** What a component may ask of the screen that shows it. */
function drawingScreen(redraw) {
  let scheduled = false;
  return {
    requestRender() {
      if (scheduled) return;
      scheduled = true;
      setTimeout(() => ((scheduled = false), redraw()), 50).unref();
    },
    terminal: { columns: 80, rows: 24 },
    setFocus() {},
    showOverlay() {},
    hideOverlay() {},
    addChild() {},
    removeChild() {},
  };
}

function footerData(extension) {
  return {
    getGitBranch: () => null,
    getExtensionStatuses: () => new Map(),
    getAvailableProviderCount: () => 1,
    getCwd: () => extension.knownFact("cwd"),
    onBranchChange: () => () => {},
  };
}
