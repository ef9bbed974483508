// Search over titles, ids, symbols, taps, parameters, code names, lines and kernels, all in the browser.

const SHOWN_HITS = 12;
const SHOWN_LETTERS = 64;
const CLOSE_AFTER = 120;
let searchCount = 0;

/** A hit has a node and its place, or a kernel.
 * @typedef {{node?: string, at?: string, kernel?: string, title: string, field: string, text: string, score: number}} Hit */

/** How well one field answers the query; 0 for not at all. @param {string} text @param {string} query */
function fieldScore(text, query) {
  const low = text.toLowerCase();
  if (low === query) return 4;
  if (low.startsWith(query)) return 3;
  const at = low.indexOf(query);
  if (at < 0) return 0;
  return /[\w]/.test(low[at - 1] ?? " ") ? 1 : 2;
}

/** The best field of one node or kernel. Each word of the query must occur somewhere in the node.
 * @param {any} entry @param {string} query @param {string[]} words @returns {Hit|null} */
function bestHit(entry, query, words) {
  if (!words.every((word) => entry.all.includes(word))) return null;
  let best = { field: "", text: "", score: 0 };
  for (const [field, text, weight] of entry.fields) {
    const score = fieldScore(text, query) * weight;
    if (score > best.score) best = { field, text, score };
  }
  // words apart still count, below any phrase
  if (!best.score) best = { field: "page", text: entry.title, score: 0.5 };
  return { node: entry.node, at: entry.at, kernel: entry.kernel, title: entry.title, ...best };
}

const FIELD_WEIGHT = /** @type {Record<string, number>} */ ({ title: 40, id: 12, symbol: 14, tap: 9, parameter: 9, kernel: 9, code: 8, lines: 6, dimension: 3 });

/** Prepare the payload's index once. @returns {any[]} */
function searchIndex() {
  const payload = KS.payload;
  payload.index ??= payload.search.map((/** @type {any} */ raw) => {
    const fields = [["title", raw.title], ["id", raw.node ?? raw.kernel], ...raw.fields].map(([field, text]) => [field, text, FIELD_WEIGHT[field] ?? 2]);
    return { ...raw, fields, all: fields.map((f) => f[1]).join("\n").toLowerCase() };
  });
  return payload.index;
}

/** @param {string} asked @returns {Hit[]} */
function findHits(asked) {
  const query = asked.trim().toLowerCase();
  if (!query || !KS.payload) return [];
  const words = query.split(/\s+/);
  const hits = /** @type {Hit[]} */ (searchIndex().map((entry) => bestHit(entry, query, words)).filter(Boolean));
  return hits.sort((a, b) => b.score - a.score || a.title.length - b.title.length).slice(0, SHOWN_HITS);
}

/** Give an input a list of results. @param {HTMLInputElement} input @param {HTMLElement} list @returns {() => void} */
function attachSearch(input, list) {
  const id = `ks-hits-${(searchCount += 1)}`;
  list.id = id;
  input.setAttribute("role", "combobox");
  input.setAttribute("aria-controls", id);
  input.setAttribute("aria-autocomplete", "list");
  let chosen = 0;
  let closing = 0;
  let hits = /** @type {Hit[]} */ ([]);
  const close = () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); input.removeAttribute("aria-activedescendant"); };
  const mark = () => {
    for (const [i, row] of [...list.querySelectorAll(".ks-hit")].entries()) {
      row.setAttribute("aria-selected", String(i === chosen));
      if (i === chosen) { input.setAttribute("aria-activedescendant", row.id); row.scrollIntoView({ block: "nearest" }); }
    }
  };
  const draw = () => {
    // the box may have been left and come back to in between
    clearTimeout(closing);
    hits = findHits(input.value);
    chosen = 0;
    if (!input.value.trim()) return close();
    const twins = sharedTitles(hits);
    list.innerHTML = hits.length ? hits.map((hit, i) => hitRow(hit, `${id}-${i}`, input.value.trim().toLowerCase(), twins)).join("")
      : `<div class="ks-nohit" role="option" aria-selected="false" aria-disabled="true">No matches for “${escapeText(input.value.trim().slice(0, 60))}” in ${escapeText(KS.payload?.name ?? "the model")}. Search looks at titles, symbols, taps, parameters, code names, lines and kernels.</div>`;
    list.hidden = false;
    input.setAttribute("aria-expanded", "true");
    mark();
  };
  const open = (/** @type {Hit|undefined} */ hit) => {
    if (!hit) return;
    close();
    input.value = "";
    input.blur();
    goTo(hit.kernel ? { view: "kernel", kernel: hit.kernel } : { node: hit.node, at: hit.at });
  };
  const key = (/** @type {KeyboardEvent} */ event) => {
    if (event.key === "Escape") { if (input.value) { input.value = ""; close(); } else input.blur(); event.stopPropagation(); }
    else if (event.key === "Enter") { event.preventDefault(); open(hits[chosen]); }
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      chosen = Math.max(0, Math.min(hits.length - 1, chosen + (event.key === "ArrowDown" ? 1 : -1)));
      mark();
    }
  };
  // pressing the mouse would blur the input before the click arrives
  const press = (/** @type {MouseEvent} */ event) => {
    const row = /** @type {Element} */ (event.target).closest(".ks-hit");
    if (!row) return;
    event.preventDefault();
    open(hits[[...list.querySelectorAll(".ks-hit")].indexOf(row)]);
  };
  const blur = () => { closing = window.setTimeout(close, CLOSE_AFTER); };
  close();
  input.addEventListener("input", draw);
  input.addEventListener("focus", draw);
  input.addEventListener("keydown", key);
  input.addEventListener("blur", blur);
  list.addEventListener("mousedown", press);
  return () => {
    input.removeEventListener("input", draw);
    input.removeEventListener("focus", draw);
    input.removeEventListener("keydown", key);
    input.removeEventListener("blur", blur);
    list.removeEventListener("mousedown", press);
  };
}

/** Titles that more than one of the hits has. @param {Hit[]} hits @returns {Set<string>} */
function sharedTitles(hits) {
  const titles = hits.map((hit) => hit.title);
  return new Set(titles.filter((title, i) => titles.indexOf(title) !== i));
}

/** @param {Hit} hit @param {string} id @param {string} query @param {Set<string>} twins */
function hitRow(hit, id, query, twins) {
  const named = ["title", "id", "page"].includes(hit.field);
  const place = hit.kernel ?? `${hit.node}${twins.has(hit.title) ? ` @ ${hit.at}` : ""}`;
  const shown = named ? place : hit.text;
  const kind = named ? (hit.kernel ? "kernel" : "") : hit.field;
  const field = kind ? `<span class="ks-soft">${escapeText(kind)}</span> ` : "";
  const title = hit.field === "title" ? marked(hit.title, query) : escapeText(hit.title);
  return `<div role="option" id="${id}" class="ks-hit"><b>${title}</b><small>${field}<code>${marked(around(shown, query), query)}</code></small></div>`;
}

/** A long text cut to what surrounds the match. @param {string} text @param {string} query */
function around(text, query) {
  const at = text.toLowerCase().indexOf(query);
  if (text.length <= SHOWN_LETTERS || at < 0) return text.slice(0, SHOWN_LETTERS);
  const word = text.lastIndexOf(" ", Math.max(0, at - SHOWN_LETTERS / 4)) + 1;
  const from = at < SHOWN_LETTERS / 2 ? 0 : word;
  return `${from ? "… " : ""}${text.slice(from, from + SHOWN_LETTERS)}${from + SHOWN_LETTERS < text.length ? " …" : ""}`;
}

/** The match stands out in its text. @param {string} text @param {string} query */
function marked(text, query) {
  const at = text.toLowerCase().indexOf(query);
  if (at < 0 || !query) return escapeText(text);
  const end = at + query.length;
  return `${escapeText(text.slice(0, at))}<mark>${escapeText(text.slice(at, end))}</mark>${escapeText(text.slice(end))}`;
}
