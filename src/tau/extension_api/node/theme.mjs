// The theme that extensions style their text with. Colours are SGR sequences, in RPC mode too: the texts that pi sends
// have them. Attributes such as bold are written only where a terminal shows the text.

const FOREGROUND = `
8abeb7 accent mdCode mdListBullet
5f87ff border
00d7ff borderAccent
505050 borderMuted thinkingOff
b5bd68 success mdCodeBlock toolDiffAdded bashMode
cc6666 error toolDiffRemoved
ffff00 warning
808080 muted thinkingText toolOutput mdCodeBlockBorder mdQuote mdQuoteBorder mdHr toolDiffContext
666666 dim mdLinkUrl
d4d4d4 text userMessageText customMessageText toolTitle syntaxOperator syntaxPunctuation
9575cd customMessageLabel
f0c674 mdHeading
81a2be mdLink thinkingMedium
6a9955 syntaxComment
569cd6 syntaxKeyword
dcdcaa syntaxFunction
9cdcfe syntaxVariable
ce9178 syntaxString
b5cea8 syntaxNumber
4ec9b0 syntaxType
6e6e6e thinkingMinimal
5f87af thinkingLow
b294bb thinkingHigh
d183e8 thinkingXhigh
ff5fff thinkingMax`;
const BACKGROUND = `
3a3a4a selectedBg searchMatchBg
343541 userMessageBg
2d2838 customMessageBg
282832 toolPendingBg
283228 toolSuccessBg
3c2828 toolErrorBg`;

function table(text) {
  return new Map(
    text
      .trim()
      .split("\n")
      .flatMap((line) => {
        const [hex, ...roles] = line.split(" ");
        const rgb = [0, 2, 4].map((at) => parseInt(hex.slice(at, at + 2), 16));
        return roles.map((role) => [role, rgb]);
      }),
  );
}

const CUBE = [0, 95, 135, 175, 215, 255];

/** The nearest of the 256 colours of a terminal. */
function nearest([red, green, blue]) {
  const level = (value) => CUBE.reduce((best, step, at) => (Math.abs(step - value) < Math.abs(CUBE[best] - value) ? at : best), 0);
  const distance = (one, other) => one.reduce((sum, value, at) => sum + (value - other[at]) ** 2, 0);
  const cube = [red, green, blue].map(level);
  const grey = Math.max(0, Math.min(23, Math.round(((red + green + blue) / 3 - 8) / 10)));
  const greyValue = 8 + grey * 10;
  const inCube = distance(cube.map((at) => CUBE[at]), [red, green, blue]);
  const inGrey = distance([greyValue, greyValue, greyValue], [red, green, blue]);
  const plain = Math.max(red, green, blue) - Math.min(red, green, blue) < 10;
  return plain && inGrey < inCube ? 232 + grey : 16 + 36 * cube[0] + 6 * cube[1] + cube[2];
}

export class Theme {
  #foreground = table(FOREGROUND);
  #background = table(BACKGROUND);
  #attributes;
  #mode;

  constructor({ attributes = false } = {}) {
    this.name = "dark";
    this.#attributes = attributes;
    const { COLORTERM, NO_COLOR, WT_SESSION } = process.env;
    this.#mode = NO_COLOR ? "none" : /^(?:truecolor|24bit)$/.test(COLORTERM ?? "") || WT_SESSION ? "truecolor" : "256color";
  }

  #code(colors, role, kind) {
    const rgb = colors.get(role);
    if (!rgb) throw new Error(`Unknown theme ${kind === 38 ? "color" : "background color"}: ${role}`);
    if (this.#mode === "none") return "";
    return this.#mode === "truecolor" ? `\x1b[${kind};2;${rgb.join(";")}m` : `\x1b[${kind};5;${nearest(rgb)}m`;
  }

  #styled(text, on, off) {
    return this.#attributes && this.#mode !== "none" ? `\x1b[${on}m${text}\x1b[${off}m` : `${text}`;
  }

  getFgAnsi(role) {
    return this.#code(this.#foreground, role, 38);
  }

  getBgAnsi(role) {
    return this.#code(this.#background, role, 48);
  }

  fg(role, text) {
    const code = this.getFgAnsi(role);
    return code ? `${code}${text}\x1b[39m` : `${text}`;
  }

  bg(role, text) {
    const code = this.getBgAnsi(role);
    return code ? `${code}${text}\x1b[49m` : `${text}`;
  }

  bold(text) {
    return this.#styled(text, 1, 22);
  }

  dim(text) {
    return this.#styled(text, 2, 22);
  }

  italic(text) {
    return this.#styled(text, 3, 23);
  }

  underline(text) {
    return this.#styled(text, 4, 24);
  }

  inverse(text) {
    return this.#styled(text, 7, 27);
  }

  strikethrough(text) {
    return this.#styled(text, 9, 29);
  }

  getColorMode() {
    return this.#mode === "truecolor" ? "truecolor" : "256color";
  }

  getThinkingBorderColor(level) {
    const role = `thinking${level[0].toUpperCase()}${level.slice(1)}`;
    return (text) => this.fg(this.#foreground.has(role) ? role : "thinkingOff", text);
  }

  getBashModeBorderColor() {
    return (text) => this.fg("bashMode", text);
  }
}

let current;

/** The theme of this process. */
export function currentTheme() {
  return (current ??= new Theme());
}

/** In the terminal interface, texts have attributes too. */
export function useTerminalTheme() {
  current = new Theme({ attributes: true });
}
