// The comparison page: two models part by part; a part opens below its line, both sides beside each other.

const BY_AGE = ["k2", "kimi-linear", "k3"];
const DEFAULT_PAIR = ["k2", "k3"];
const SHOWN_STANDINGS = ["all", "changed", "new", "gone", "same"];

/** @typedef {{hash: string, from: string, to: string, title: string, max: number, html: string, nodes: Record<string, string>, foot: string}} Comparison */

/** Comparisons that have come, by pair: going back to one needs no message. @type {Map<string, Comparison>} */
const COMPARISONS = (/** @type {any} */ (window)).__kimiscopeComparisons ??= new Map();

/** The comparison of the address, once it has come. @returns {Comparison|null} */
function comparison() {
  return KS.state.view === "compare" ? COMPARISONS.get(KS.state.pair.join(" ")) ?? null : null;
}

/** The pair of the address, the older model first. @param {URLSearchParams} asked @param {string[]} notices @returns {string[]} */
function readPair(asked, notices) {
  const pair = [asked.get("from") ?? DEFAULT_PAIR[0], asked.get("to") ?? DEFAULT_PAIR[1]];
  const [from, to] = pair.map((model) => BY_AGE.indexOf(model));
  if (from >= 0 && from < to) return pair;
  const swapped = from > to && to >= 0;
  if (swapped) pair.reverse();
  const shown = swapped ? pair : DEFAULT_PAIR;
  if (asked.get("view") === "compare") {
    const said = [asked.get("from"), asked.get("to")].map((model) => (model === null ? "nothing" : `“${model.slice(0, 40)}”`)).join(" to ");
    notices.push(swapped
      ? `The address compares ${said}; the older model stands first here.`
      : `The address compares ${said}; there are ${BY_AGE.join(", ")}, two different ones, and ${shown.join(" to ")} is shown.`);
  }
  return shown;
}

/** @param {string|null} asked @param {string[]} notices @returns {string} */
function readStanding(asked, notices) {
  if (asked === null || SHOWN_STANDINGS.includes(asked)) return asked ?? "all";
  notices.push(`The address says show “${asked.slice(0, 40)}”; there are ${SHOWN_STANDINGS.join(", ")}, and all are shown.`);
  return "all";
}

/** The page arrives as gzip; one that is here is not read again. @param {string} hash @param {Uint8Array} zipped */
async function takeComparison(hash, zipped) {
  if ([...COMPARISONS.values()].some((known) => known.hash === hash)) return;
  const found = /** @type {Comparison} */ (await unzipped(zipped));
  COMPARISONS.set(`${found.from} ${found.to}`, { ...found, hash });
  // the longest context of the pair is known only here
  readAddress();
  showPage(false);
}

/** @returns {{html: string, title: string, parts: Part[]}} */
function comparisonPage() {
  const found = comparison();
  if (!found) return { html: '<p class="ks-soft ks-loading" role="status">Comparing the two models …</p>', title: "Comparison", parts: [] };
  return { html: `<div data-part="notices"></div>${found.html}`, title: found.title, parts: [partsOfPair] };
}

/** What makes the page another one. @returns {string} */
function comparisonKey() {
  return ["compare", ...KS.state.pair, comparison() ? "here" : "awaited"].join("|");
}

/** Go to a pair, or open a part of it; makes a step in the history. @param {DOMStringMap} asked */
function goToComparison(asked) {
  const open = KS.state.view === "compare" && asked.node === KS.state.node && !asked.from;
  const changes = { view: "compare", at: null, head: null, token: null, node: open ? null : asked.node ?? null };
  const pair = asked.from ? { from: asked.from, to: asked.to ?? null } : {};
  const before = KS.state.view === "compare" ? comparisonKey() : "";
  history.pushState({}, "", addressWith({ ...changes, ...pair }));
  KS.led = null;
  readAddress();
  // a part opens where it stands; another pair begins at the top
  showPage(before !== comparisonKey());
  tellStreamlit();
}

/** The lines of the page: one of them open, some of them shown.
 * @type {Part} */
function partsOfPair(root) {
  let open = "";
  let numbers = /** @type {LiveNumber[]} */ ([]);
  const choose = (/** @type {Event} */ event) => {
    const button = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("[data-show]"));
    if (!button) return;
    KS.state.show = button.dataset.show ?? "all";
    setDetail({ show: KS.state.show === "all" ? null : KS.state.show }, false);
    drawStandings(root);
  };
  root.addEventListener("click", choose);
  const walk = (/** @type {KeyboardEvent} */ event) => walkLines(root, event);
  document.addEventListener("keydown", walk);
  const draw = (/** @type {string} */ what) => {
    if (what !== "numbers") drawStandings(root);
    if (open !== KS.state.node) {
      closePart(root, open);
      open = KS.state.node;
      numbers = openPart(root, open);
    }
    fillNumbers(numbers);
    fillWords(root);
    const beyond = /** @type {HTMLElement|null} */ (root.querySelector("[data-beyond]"));
    if (beyond) beyond.hidden = KS.state.context <= Number(beyond.dataset.beyond);
  };
  return { draw, stop: () => { root.removeEventListener("click", choose); document.removeEventListener("keydown", walk); } };
}

/** @param {HTMLElement} root */
function drawStandings(root) {
  root.dataset.shown = KS.state.show;
  for (const button of root.querySelectorAll("[data-show]")) button.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (button).dataset.show === KS.state.show));
}

/** J and K to the next and the previous line that is shown. @param {HTMLElement} root @param {KeyboardEvent} event */
function walkLines(root, event) {
  const step = { j: 1, k: -1 }[event.key];
  if (!step || event.metaKey || event.ctrlKey || event.altKey || /** @type {Element} */ (event.target).closest("input, textarea, select")) return;
  const lines = /** @type {HTMLElement[]} */ ([...root.querySelectorAll(".ks-part h3 a")]).filter((link) => link.offsetParent !== null);
  const at = lines.findIndex((link) => link.closest(".ks-part")?.contains(document.activeElement));
  const next = lines[at < 0 ? 0 : at + step];
  if (next) { event.preventDefault(); next.focus(); }
}

/** @param {HTMLElement} root @param {string} node @returns {HTMLElement|null} */
function lineOf(root, node) {
  return node ? root.querySelector(`[data-part="${CSS.escape(node)}"]`) : null;
}

/** @param {HTMLElement} root @param {string} node */
function closePart(root, node) {
  const line = lineOf(root, node);
  const slot = /** @type {HTMLElement|null} */ (line?.querySelector("[data-slot]") ?? null);
  if (!line || !slot) return;
  slot.hidden = true;
  slot.replaceChildren();
  line.classList.remove("ks-here-open");
  line.querySelector("h3 a")?.setAttribute("aria-expanded", "false");
}

/** Fill the slot below a line and bring it into view. @param {HTMLElement} root @param {string} node @returns {LiveNumber[]} */
function openPart(root, node) {
  const line = lineOf(root, node);
  const slot = /** @type {HTMLElement|null} */ (line?.querySelector("[data-slot]") ?? null);
  if (!line || !slot) return [];
  slot.innerHTML = comparison()?.nodes[node] ?? "";
  slot.hidden = false;
  line.classList.add("ks-here-open");
  line.querySelector("h3 a")?.setAttribute("aria-expanded", "true");
  const box = line.getBoundingClientRect();
  if (box.top < 80 || box.bottom > innerHeight) line.scrollIntoView({ block: box.height > innerHeight - 120 || box.top < 80 ? "start" : "end" });
  return liveNumbers(slot);
}

/** What is said when the address opens a part that neither model has. @returns {string[]} */
function comparisonNotice() {
  const found = comparison();
  if (!found || !KS.state.node || found.nodes[KS.state.node]) return [];
  return [`The address opens ${KS.state.node.slice(0, 80)}, which neither of the two models has; none is open.`];
}
