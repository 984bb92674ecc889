
"use strict";
// The page works without this script, which adds the side list, other branches, search and keys. It never
// creates HTML from text: entries of other branches come from <template>, everything else is set as text.
(() => {
  const root = document.documentElement;
  const remembered = { get: () => { try { return localStorage.getItem("tau-theme"); } catch { return null; } },
                       set: (theme) => { try { localStorage.setItem("tau-theme", theme); } catch { /* not available */ } } };
  if (["light", "dark"].includes(remembered.get())) root.dataset.theme = remembered.get();

  const ID = 0, PARENT = 1, KIND = 2, DEPTH = 3, TIP = 4, TEXT = 5, LABEL = 6, PLACE = 7;
  const CARDS_PER_SECTION = 16; // page.py has the same number
  const SLICE_MS = 12; // work before yielding to the browser
  const FILTERS = {
    "default": (row) => !["calls", "setting", "data", "model"].includes(row[KIND]),
    "no-tools": (row) => !["calls", "setting", "data", "model", "tool", "tool-failed"].includes(row[KIND]),
    "user": (row) => row[KIND] === "user",
    "labeled": (row) => row[LABEL] !== "",
    "all": () => true,
  };

  document.addEventListener("DOMContentLoaded", () => {
    const $ = (id) => document.getElementById(id);
    const talk = $("talk"), list = $("list"), canvas = $("rows-shown"), search = $("search"), status = $("status");
    const [leaf, ...rows] = JSON.parse($("rows").textContent);
    const number = new Map(rows.map((row, at) => [row[ID], at]));
    const below = new Map();
    rows.forEach((row, at) => {
      if (!below.has(row[PARENT])) below.set(row[PARENT], []);
      below.get(row[PARENT]).push(at);
    });
    for (const siblings of below.values()) siblings.sort((one, other) => rows[one][PLACE] - rows[other][PLACE]);
    // A branch that contains only settings does not count as a branch. A parent's row precedes those of its children.
    const shows = rows.map((row) => !["setting", "data"].includes(row[KIND]));
    for (let at = rows.length - 1; at > 0; at--) if (shows[at] && rows[at][PARENT] >= 0) shows[rows[at][PARENT]] = true;

    // Entries as elements: those in the page, and those in a template.

    const waiting = new Map();
    for (const template of document.querySelectorAll("template")) {
      const first = template.content.firstElementChild;
      waiting.set(first.id, template);
    }
    const found = new Map();
    const unfolded = { thinking: false, more: false };
    const element = (at) => {
      if (found.has(at)) return found.get(at);
      const id = "e-" + rows[at][ID];
      let it = $(id);
      if (!it && waiting.has(id)) {
        it = document.importNode(waiting.get(id).content, true).firstElementChild;
        for (const kind in unfolded) if (unfolded[kind]) for (const fold of it.querySelectorAll("details." + kind)) fold.open = true;
      }
      found.set(at, it);
      return it;
    };

    // Long work runs in slices, so that the page stays responsive.

    const pause = () => new Promise((go) => setTimeout(go));
    const slices = () => {
      let until = performance.now() + SLICE_MS;
      return async () => {
        if (performance.now() < until) return;
        await pause();
        until = performance.now() + SLICE_MS;
      };
    };

    // The branch that is shown.

    const pathTo = (at) => {
      const path = [];
      for (; at >= 0; at = rows[at][PARENT]) path.push(at);
      return path.reverse();
    };
    let path = pathTo(leaf), onPath = new Set(path), flow = [], turn = 0;

    const settle = () => {
      flow = path.map((at) => [at, element(at)]).filter(([, it]) => it && it.matches("article"));
      for (const old of talk.querySelectorAll(".fork")) old.remove();
      for (const at of path) {
        const siblings = below.get(rows[at][PARENT]).filter((other) => other === at || shows[other]);
        if (siblings.length > 1) addFork(at, siblings);
      }
      paint();
    };
    const addFork = (at, siblings) => {
      const start = path.indexOf(at);
      const first = path.slice(start, start + 50).map(element).find((it) => it && it.matches("article:not(.quiet)"));
      if (!first) return;
      const place = siblings.indexOf(at), fork = document.createElement("div");
      fork.className = "fork";
      const button = (text, label, to) => {
        const it = document.createElement("button");
        it.textContent = text;
        it.title = label;
        it.setAttribute("aria-label", label);
        it.addEventListener("click", () => go(siblings[(to + siblings.length) % siblings.length], true));
        return it;
      };
      const words = document.createElement("span");
      words.textContent = `branch ${place + 1} of ${siblings.length}`;
      fork.append(button("‹", "Previous branch", place - 1), words, button("›", "Next branch", place + 1));
      first.querySelector(":scope > header").before(fork);
    };
    const lastLeaf = () => {
      const last = talk.lastElementChild;
      return last && last.childElementCount < CARDS_PER_SECTION ? last : talk.appendChild(document.createElement("section"));
    };
    const show = async (tip) => {
      const mine = ++turn, goal = pathTo(tip), slice = slices();
      let same = 0;
      while (same < goal.length && goal[same] === path[same]) same++;
      for (const at of path.slice(same).reverse()) element(at)?.remove();
      while (talk.lastElementChild && !talk.lastElementChild.firstElementChild) talk.lastElementChild.remove();
      path = goal.slice(0, same);
      for (const at of goal.slice(same)) {
        const it = element(at);
        path.push(at);
        if (it) (it.dataset.in ? $(it.dataset.in).querySelector(".slot") : lastLeaf()).append(it);
        await slice();
        if (mine !== turn) return false;
      }
      onPath = new Set(path);
      settle();
      return true;
    };
    const go = async (at, other = false) => {
      if ((other || !onPath.has(at)) && !(await show(onPath.has(at) ? path.at(-1) : rows[at][TIP]))) return;
      reveal(at);
      document.body.classList.remove("drawer");
    };
    let here = -1;
    const reveal = (at) => {
      let start = path.indexOf(at), it = null;
      for (; start >= 0 && !it; start--) {
        const candidate = element(path[start]);
        if (candidate?.isConnected && candidate.checkVisibility()) it = candidate;
      }
      if (!it) return;
      for (let fold = it.closest("details"); fold; fold = fold.parentElement.closest("details")) fold.open = true;
      it.scrollIntoView({ block: "start" });
      history.replaceState(null, "", "#e-" + encodeURIComponent(rows[at][ID]));
      mark(at, it.closest("article"));
    };
    let marked = null;
    const mark = (at, article) => {
      marked?.classList.remove("here");
      marked = article;
      marked?.classList.add("here");
      here = at;
      paint();
    };

    // The side list: only visible rows exist as elements.

    let filter = "default", listed = [], pool = [], height = 28;
    const paint = () => {
      const first = Math.max(0, Math.floor(list.scrollTop / height) - 4);
      const last = Math.min(listed.length, first + Math.ceil(list.clientHeight / height) + 8);
      while (pool.length < last - first) pool.push(makeRow());
      pool.forEach((it, n) => {
        const at = listed[first + n];
        it.hidden = first + n >= last;
        if (it.hidden) return;
        const row = rows[at];
        it.style.transform = `translateY(${(first + n) * height}px)`;
        if (it.at !== at) fillRow(it, at, row);
        it.classList.toggle("on", onPath.has(at));
        it.classList.toggle("here", at === here);
      });
    };
    const makeRow = () => {
      const it = document.createElement("div"), dot = document.createElement("span");
      const name = document.createElement("span"), tag = document.createElement("span");
      [dot.className, name.className, tag.className] = ["dot", "name", "tag"];
      it.append(dot, name, tag);
      it.setAttribute("role", "option");
      it.addEventListener("click", () => go(it.at));
      canvas.append(it);
      return it;
    };
    const fillRow = (it, at, row) => {
      it.at = at;
      it.className = "row " + row[KIND];
      it.style.setProperty("--depth", Math.min(row[DEPTH], 12));
      it.children[1].textContent = it.title = row[TEXT];
      it.children[2].textContent = row[LABEL];
      it.children[2].hidden = row[LABEL] === "";
      for (const line of it.querySelectorAll("i")) line.remove();
      for (let depth = 0; depth <= Math.min(row[DEPTH], 12); depth++) {
        const line = document.createElement("i");
        line.style.left = `calc(1.2rem + ${depth * 0.9}rem)`;
        it.append(line);
      }
    };
    const relist = (matches) => {
      listed = [];
      const wanted = FILTERS[filter];
      for (let at = 0; at < rows.length; at++) if (wanted(rows[at]) && (!matches || matches(at))) listed.push(at);
      height = parseFloat(getComputedStyle(list).getPropertyValue("--row")) * parseFloat(getComputedStyle(root).fontSize);
      canvas.style.height = listed.length * height + "px";
      const all = rows.length.toLocaleString("en");
      status.textContent = matches ? `${listed.length.toLocaleString("en")} of ${all} entries match` : `${listed.length.toLocaleString("en")} of ${all} entries`;
      paint();
    };
    const showInList = (at) => {
      let place = listed.indexOf(at);
      for (let up = path.indexOf(at); place < 0 && up > 0; up--) place = listed.indexOf(path[up - 1]);
      if (place < 0) return;
      const top = place * height;
      if (top < list.scrollTop + height || top > list.scrollTop + list.clientHeight - 2 * height)
        list.scrollTop = top - list.clientHeight / 2;
    };
    let framed = false;
    list.addEventListener("scroll", () => {
      if (framed) return;
      framed = true;
      requestAnimationFrame(() => { framed = false; paint(); });
    }, { passive: true });
    new ResizeObserver(() => paint()).observe(list);
    $("filters").addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (!button) return;
      filter = button.dataset.filter;
      for (const other of $("filters").children) other.setAttribute("aria-pressed", other === button);
      document.body.classList.toggle("everything", filter === "all");
      look();
    });
    list.addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!step) return;
      event.preventDefault();
      const next = listed[Math.max(0, Math.min(listed.length - 1, listed.indexOf(here) + step))];
      if (next !== undefined) go(next).then(() => showInList(next));
    });

    // Search: the text of every entry, extracted on first use.

    const texts = [];
    const read = (it) => {
      let text = it.textContent;
      for (const slot of it.querySelectorAll(".slot")) text = text.replace(slot.textContent, " "); // results have their own rows
      return text;
    };
    const readAll = async () => {
      const slice = slices();
      for (let at = texts.length; at < rows.length; at = texts.length) {
        const id = "e-" + rows[at][ID], it = found.get(at) ?? $(id) ?? waiting.get(id)?.content;
        texts.push(`${rows[at][TEXT]} ${rows[at][LABEL]} ${it ? read(it) : ""}`.toLowerCase());
        await slice();
      }
    };
    let asked = 0, words = [];
    const look = async () => {
      const mine = ++asked;
      words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      if (!words.length) { relist(null); highlight(); return; }
      await readAll();
      if (mine !== asked) return;
      relist((at) => words.every((word) => texts[at].includes(word)));
      highlight();
    };
    // Only sections are measured: measuring a card would force the layout of its whole section.
    const nearLeaves = () => {
      const leaves = talk.children, near = [];
      let low = 0, high = leaves.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (leaves[middle].getBoundingClientRect().bottom < 0) low = middle + 1; else high = middle;
      }
      for (; low < leaves.length && leaves[low].getBoundingClientRect().top < innerHeight; low++) near.push(leaves[low]);
      return near;
    };
    const highlight = () => {
      if (!window.Highlight || !CSS.highlights) return;
      CSS.highlights.delete("found");
      if (!words.length) return;
      const ranges = [];
      for (const leaf of nearLeaves()) {
        const walk = document.createTreeWalker(leaf, NodeFilter.SHOW_TEXT);
        while (walk.nextNode() && ranges.length <= 500) {
          const text = walk.currentNode.data.toLowerCase();
          if (text.length !== walk.currentNode.data.length) continue;
          for (const word of words) for (let at = text.indexOf(word); at >= 0; at = text.indexOf(word, at + word.length)) {
            const range = new Range();
            range.setStart(walk.currentNode, at);
            range.setEnd(walk.currentNode, at + word.length);
            ranges.push(range);
          }
        }
      }
      CSS.highlights.set("found", new Highlight(...ranges));
    };
    let typing = 0;
    search.addEventListener("input", () => { clearTimeout(typing); typing = setTimeout(look, 90); });
    search.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || !listed.length) return;
      const place = listed.indexOf(here), step = event.shiftKey ? -1 : 1;
      const next = listed[(place < 0 ? 0 : place + step + listed.length) % listed.length];
      go(next).then(() => { unfoldMatch(next); showInList(next); });
    });
    const unfoldMatch = (at) => {
      const it = element(at);
      if (!it || !words.length) return;
      for (const fold of it.querySelectorAll("details:not([open])"))
        if (words.some((word) => fold.textContent.toLowerCase().includes(word))) fold.open = true;
      highlight();
    };

    // The current reading position.

    const spy = () => {
      const edge = parseFloat(getComputedStyle(root).scrollPaddingTop) + 8;
      const cards = nearLeaves().flatMap((leaf) => [...leaf.children]).filter((it) => it.checkVisibility());
      const top = cards.filter((it) => it.getBoundingClientRect().top <= edge).at(-1) ?? cards[0];
      const at = top ? number.get(top.id.slice(2)) : here;
      if (at !== here) { mark(at, top); showInList(at); }
      highlight();
    };
    let resting = 0;
    addEventListener("scroll", () => { clearTimeout(resting); resting = setTimeout(spy, 90); }, { passive: true });

    // Keys and buttons.

    const step = (by) => {
      let at = flow.findIndex(([row]) => row === here);
      if (at < 0) at = by > 0 ? -1 : 0;
      else if (by > 0 && flow[at][1].getBoundingClientRect().top > innerHeight / 2) at--;
      do at += by; while (flow[at] && (flow[at][1].matches(".quiet") && !document.body.matches(".everything")));
      if (!flow[at]) return;
      flow[at][1].scrollIntoView({ block: "start" });
      mark(...flow[at]);
      showInList(here);
    };
    const unfold = async (kind, button) => {
      unfolded[kind] = !unfolded[kind];
      button.setAttribute("aria-pressed", unfolded[kind]);
      const slice = slices(), wanted = unfolded[kind];
      for (const [, it] of [...flow]) {
        for (const fold of it.querySelectorAll("details." + kind)) fold.open = wanted;
        await slice();
        if (wanted !== unfolded[kind]) return;
      }
      for (const [at, it] of found) if (it && !onPath.has(at)) for (const fold of it.querySelectorAll("details." + kind)) fold.open = wanted;
    };
    const drawer = (open) => {
      document.body.classList.toggle("drawer", open);
      $("menu").setAttribute("aria-expanded", document.body.matches(".drawer"));
      paint();
    };
    const keys = {
      "/": () => { drawer(true); search.focus(); search.select(); },
      "j": () => step(1),
      "k": () => step(-1),
      "t": () => unfold("thinking", $("toggle-thinking")),
      "o": () => unfold("more", $("toggle-output")),
      "Escape": () => { drawer(false); if (search.value) { search.value = ""; look(); } search.blur(); },
    };
    addEventListener("keydown", (event) => {
      if (event.ctrlKey || event.metaKey || event.altKey) return;
      if (event.target.matches?.("input, textarea") && event.key !== "Escape") return;
      if (!Object.hasOwn(keys, event.key)) return;
      event.preventDefault();
      keys[event.key]();
    });
    $("menu").addEventListener("click", () => drawer());
    document.querySelector("main").addEventListener("click", () => drawer(false));
    $("toggle-thinking").addEventListener("click", keys.t);
    $("toggle-output").addEventListener("click", keys.o);
    $("theme").addEventListener("click", () => {
      const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      root.dataset.theme = dark ? "light" : "dark";
      remembered.set(root.dataset.theme);
    });
    const dialog = document.createElement("dialog"), large = document.createElement("img");
    dialog.append(large);
    dialog.addEventListener("click", () => dialog.close());
    document.body.append(dialog);
    document.addEventListener("click", (event) => {
      if (!event.target.matches(".pictures img")) return;
      large.src = event.target.src;
      dialog.showModal();
    });
    const followAddress = () => {
      let id = "";
      try { id = decodeURIComponent(location.hash.slice(3)); } catch { return; }
      if (location.hash.startsWith("#e-") && number.has(id)) go(number.get(id)).then(() => showInList(here));
    };
    addEventListener("hashchange", followAddress);

    $("bar-title").textContent = document.title;
    $("side").hidden = $("bar").hidden = false;
    document.body.classList.add("listed");
    relist(null);
    settle();
    if (location.hash) followAddress(); else showInList(path[0] ?? 0);
    root.dataset.ready = "";
  });
})();
