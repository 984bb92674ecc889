/* Search and copy buttons of the site. No server, no network: the index is a script beside this one, which works from
   file:// as well, and is loaded when the search box is used for the first time. */
"use strict";
(() => {
  const root = new URL(".", document.currentScript.src).href;
  const MAX_RESULTS = 12;

  /* Copy buttons. Of a block with prompts ("$ command" among its output), only the commands are copied. */
  const commandsOf = (text) => {
    const lines = text.split("\n").filter((line) => line.startsWith("$ "));
    return lines.length ? lines.map((line) => line.slice(2)).join("\n") : text;
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      const area = document.body.appendChild(document.createElement("textarea"));
      area.value = text;
      area.select();
      document.execCommand("copy");
      area.remove();
    }
  };
  for (const block of document.querySelectorAll("main pre")) {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.addEventListener("click", async () => {
      await copy(commandsOf(block.querySelector("code").textContent));
      button.textContent = "copied";
      setTimeout(() => (button.textContent = "copy"), 1500);
    });
    const box = document.createElement("div");
    box.className = "code";
    block.replaceWith(box);
    box.append(block, button);
  }

  /* Search. Every word must occur in a section; titles count more than text. */
  const input = document.querySelector("#search");
  const list = document.querySelector("#found");
  let index = null;
  const load = () =>
    new Promise((resolve) => {
      if (index) return resolve();
      const script = document.createElement("script");
      script.src = root + "search-index.js";
      script.onload = () => {
        index = window.SEARCH_INDEX.map(([url, page, section, text, weight]) => ({
          url, page, section, text, weight,
          titles: (page + " " + section).toLowerCase(),
          lower: text.toLowerCase(),
        }));
        resolve();
      };
      document.head.append(script);
    });
  const score = (entry, words, phrase) => {
    let sum = 0;
    for (const word of words) {
      const inTitle = entry.titles.includes(word);
      const inText = entry.lower.includes(word);
      if (!inTitle && !inText) return 0;
      sum += (inTitle ? 4 : 0) + (inText ? 1 : 0);
    }
    if (entry.page.toLowerCase().startsWith(phrase)) sum += entry.section ? 2 : 20;
    if (entry.section.toLowerCase() === phrase) sum += 12;
    if (entry.titles.includes(phrase)) sum += 4;
    if (entry.lower.includes(phrase)) sum += 2;
    return sum * entry.weight;
  };
  const snippet = (entry, words) => {
    const places = [words.join(" "), ...words].map((word) => entry.lower.indexOf(word)).filter((place) => place >= 0);
    const at = Math.max(0, (places[0] ?? 0) - 40);
    const start = at ? entry.text.indexOf(" ", at) + 1 : 0;
    const end = entry.text.lastIndexOf(" ", start + 140);
    const whole = entry.text.length <= start + 140;
    const text = (start ? "… " : "") + (whole ? entry.text.slice(start) : entry.text.slice(start, end) + " …");
    const mark = document.createElement("span");
    const pattern = new RegExp("(" + words.map((word) => word.replace(/[^\w]/g, "\\$&")).join("|") + ")", "i");
    for (const [number, piece] of text.split(pattern).entries()) {
      const node = number % 2 ? document.createElement("mark") : document.createElement("span");
      node.textContent = piece;
      mark.append(node);
    }
    return mark;
  };
  const show = async () => {
    const phrase = input.value.trim().toLowerCase();
    if (phrase.length < 2) {
      list.hidden = true;
      return;
    }
    await load();
    if (phrase !== input.value.trim().toLowerCase()) return;
    const words = phrase.split(/\s+/);
    const found = index
      .map((entry) => [score(entry, words, phrase), entry])
      .filter(([points]) => points > 0)
      .sort((a, b) => b[0] - a[0])
      .slice(0, MAX_RESULTS);
    list.replaceChildren(
      ...found.map(([, entry]) => {
        const item = document.createElement("li");
        const link = item.appendChild(document.createElement("a"));
        link.href = root + entry.url;
        const title = link.appendChild(document.createElement("b"));
        title.textContent = entry.section ? `${entry.page} › ${entry.section}` : entry.page;
        link.append(snippet(entry, words));
        link.addEventListener("click", () => (list.hidden = true));
        return item;
      }),
    );
    if (!found.length) {
      const item = list.appendChild(document.createElement("li"));
      item.className = "none";
      item.textContent = `Nothing found for “${input.value.trim()}”.`;
    }
    list.hidden = false;
  };
  input.addEventListener("focus", load, { once: true });
  input.addEventListener("input", show);
  document.addEventListener("keydown", (event) => {
    const typing = /^(input|textarea)$/i.test(event.target.tagName);
    const links = [...list.querySelectorAll("a")];
    if (event.key === "/" && !typing) {
      event.preventDefault();
      input.focus();
    } else if (event.key === "Escape") {
      list.hidden = true;
      input.blur();
    } else if ((event.key === "ArrowDown" || event.key === "ArrowUp") && !list.hidden && links.length) {
      event.preventDefault();
      const here = links.indexOf(document.activeElement) + (event.key === "ArrowDown" ? 1 : -1);
      (links[here] ?? input).focus();
    } else if (event.key === "Enter" && event.target === input && links.length) {
      links[0].click();
    }
  });
  document.addEventListener("click", (event) => {
    if (!event.target.closest(".search")) list.hidden = true;
  });
})();
