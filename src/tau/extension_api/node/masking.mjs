// Source code with comments, strings, template text and regular expressions blanked out, at the same positions.
//
// The code that remains can be searched for identifiers and brackets. Quotes stay, so that strings can be found.

const REGEX_AFTER_WORD = /(?:^|[^\w$.])(?:return|typeof|case|in|of|delete|void|throw|new|else|do|await|yield|instanceof)$/;
const EXPRESSION_END = /[\w$)\]}"'`]/;

export function maskCode(code) {
  const out = []; // alternately code and blanks
  let copied = 0;
  const blank = (from, to) => {
    if (to <= from) return;
    out.push(code.slice(copied, from), blanks(code.slice(from, to)));
    copied = to;
  };
  const braces = []; // for each open brace: does it belong to a template?
  let at = 0;
  let last = ""; // the last significant character
  let lastAt = -1;

  const template = (from) => {
    let place = from;
    while (place < code.length) {
      if (code[place] === "\\") place += 2;
      else if (code[place] === "`") {
        blank(from, place);
        [last, lastAt] = ["`", place];
        return place + 1;
      } else if (code[place] === "$" && code[place + 1] === "{") {
        blank(from, place + 1);
        braces.push(true);
        [last, lastAt] = ["{", place + 1];
        return place + 2;
      } else place++;
    }
    blank(from, code.length);
    return code.length;
  };

  while (at < code.length) {
    const char = code[at];
    const next = code[at + 1];
    if (char === "/" && next === "/") {
      const end = code.indexOf("\n", at);
      const to = end < 0 ? code.length : end;
      blank(at, to);
      at = to;
    } else if (char === "/" && next === "*") {
      const end = code.indexOf("*/", at + 2);
      const to = end < 0 ? code.length : end + 2;
      blank(at, to);
      at = to;
    } else if (char === '"' || char === "'") {
      let end = at + 1;
      while (end < code.length && code[end] !== char && code[end] !== "\n") end += code[end] === "\\" ? 2 : 1;
      blank(at + 1, Math.min(end, code.length));
      [last, lastAt] = [char, end];
      at = end + 1;
    } else if (char === "`") {
      at = template(at + 1);
    } else if (char === "/" && startsRegex(code, last, lastAt)) {
      const end = regexEnd(code, at);
      blank(at + 1, end);
      [last, lastAt] = ["/", end];
      at = end + 1;
      last = ")"; // what follows a regular expression is not one
    } else {
      if (char === "{") braces.push(false);
      if (char === "}" && braces.pop() === true) {
        at = template(at + 1);
        continue;
      }
      if (char.trim()) [last, lastAt] = [char, at];
      at++;
    }
  }
  out.push(code.slice(copied));
  return out.join("");
}

function startsRegex(code, last, lastAt) {
  if (last === "") return true;
  if (!EXPRESSION_END.test(last)) return true;
  return /[\w$]/.test(last) && REGEX_AFTER_WORD.test(code.slice(Math.max(0, lastAt - 12), lastAt + 1));
}

function regexEnd(code, start) {
  let inClass = false;
  for (let at = start + 1; at < code.length && code[at] !== "\n"; at++) {
    if (code[at] === "\\") at++;
    else if (code[at] === "[") inClass = true;
    else if (code[at] === "]") inClass = false;
    else if (code[at] === "/" && !inClass) return at;
  }
  return start; // a division after all
}

/** Replaces by spaces what is not a line end, so that the lines keep their numbers. */
export function blanks(text) {
  return text.replace(/[^\n]/g, " ");
}

/** The position of the bracket that closes the one at `open`, in masked code; -1 if there is none. */
export function closing(masked, open) {
  const pairs = { "(": ")", "{": "}", "[": "]" };
  const close = pairs[masked[open]];
  let depth = 0;
  for (let at = open; at < masked.length; at++) {
    if (masked[at] === masked[open]) depth++;
    else if (masked[at] === close && --depth === 0) return at;
  }
  return -1;
}
