// The upper half of a node page: what Python rendered, with its live parts brought to life.

/** @param {HTMLElement} root */
function mountAbove(root) {
  let numbers = /** @type {LiveNumber[]} */ ([]);
  let parts = /** @type {Array<(what: string) => void>} */ ([]);
  let stopParts = /** @type {Array<() => void>} */ ([]);
  let shown = "";
  const clear = () => { for (const stop of stopParts) stop(); stopParts = []; parts = []; };
  const page = () => {
    const key = KS.state.view === "compare" ? comparisonKey() : [KS.hash, KS.state.view, KS.state.node, currentPlace(), KS.state.tour, kernelKey()].join("|");
    if (key === shown) return false;
    shown = key;
    clear();
    const made = pageHtml();
    root.innerHTML = made.html;
    for (const start of made.parts) {
      const part = start(root);
      if (part) { parts.push(part.draw); if (part.stop) stopParts.push(part.stop); }
    }
    // a run of another part would only mislead below the words that there is no such part
    document.documentElement.classList.toggle("ks-lost", KS.state.view === "node" && !currentNode());
    numbers = liveNumbers(root);
    root.classList.remove("ks-waiting");
    document.title = `${made.title} · Kimiscope`;
    return true;
  };
  const draw = (/** @type {string} */ what) => {
    if (what === "waiting") { root.classList.add("ks-waiting"); return; }
    if (!KS.payload) { root.innerHTML = '<p class="ks-soft ks-loading" role="status">Reading the nodes …</p>'; return; }
    if (what === "payload") shown = "";
    const fresh = what !== "numbers" && page();
    if (what !== "numbers") drawNotices(root);
    fillNumbers(numbers);
    fillWords(root);
    for (const part of parts) part(fresh ? "page" : what);
  };
  return { draw, stop: clear };
}

/** @typedef {(root: HTMLElement) => {draw: (what: string) => void, stop?: () => void}|null} Part */

/** @returns {{html: string, title: string, parts: Part[]}} */
function pageHtml() {
  if (KS.state.view === "overview") return { html: overviewHtml(), title: `${KS.payload.name}, part by part`, parts: [overviewParts] };
  if (KS.state.view === "kernel") return kernelPage();
  if (KS.state.view === "compare") return comparisonPage();
  const head = HEADS[KS.state.view];
  if (head) return { html: `<div data-part="notices"></div><header class="ks-head"><h1>${head.title}</h1><p class="ks-lede">${head.lede}</p></header>`, title: head.name, parts: [equationsOfRows] };
  const node = currentNode();
  if (!node) return { html: unknownNode(), title: "No such node", parts: [] };
  const first = node.pages[node.first];
  const here = currentPage();
  const html = `<div data-part="notices"></div>${tourHtml()}${here.head}${here.body ?? first.body}`;
  return { html, title: here.title, parts: [layerStrip, crossingChart, schedule, sourcesOfLayer, foldedSources] };
}

/** What the pages are that are of no single node; the rest of each is the live half.
 * @type {Record<string, {name: string, title: string, lede: string}>} */
const HEADS = {
  weights: {
    name: "Weights", title: "Weights under the microscope",
    lede: "Single tensors of a checkpoint, read where they stand: a header that says where each lies, then just those bytes.",
  },
  proofs: {
    name: "Proofs", title: "All proofs",
    lede: "Every equation of the running model, computed again in float64 from what this run captured, and how far its tensors are from it.",
  },
  memory: {
    name: "Memory", title: "Formula against measurement",
    lede: "What a model keeps and what its weights take: predicted by formula, and counted on the tensors of the one that runs here.",
  },
};

/** A page that works although its node does not exist. @returns {string} */
function unknownNode() {
  const asked = KS.state.node;
  const payload = KS.payload;
  const near = nearestNodes(asked);
  const links = near.map((id) => `<li><a href="${escapeText(nodeAddress(id, ""))}" data-node="${escapeText(id)}" data-at="">${escapeText(payload.nodes[id].title)}</a> <code>${escapeText(id)}</code></li>`).join("");
  const said = `There is no node <code>${escapeText(asked.slice(0, 80)) || "(empty)"}</code> in ${escapeText(payload.name)}. The nearest by name:`;
  return `<div data-part="notices"></div><h1 class="ks-h1">No such part</h1><p class="ks-lede">${said}</p><ul class="ks-near">${links}</ul>
    <p class="ks-note">The outline at the left lists every part; <kbd>/</kbd> searches them.</p>`;
}

/** Ids that share most letters pairs with the one asked. @param {string} asked @returns {string[]} */
function nearestNodes(asked) {
  const pairs = (/** @type {string} */ text) => new Set([...text.toLowerCase()].map((c, i, all) => c + (all[i + 1] ?? "")));
  const wanted = pairs(asked);
  const alike = (/** @type {string} */ id) => {
    const mine = pairs(id);
    return (2 * [...mine].filter((p) => wanted.has(p)).length) / (mine.size + wanted.size || 1);
  };
  return Object.keys(KS.payload.nodes).map((id) => /** @type {[string, number]} */ ([id, alike(id)])).sort((a, b) => b[1] - a[1]).slice(0, 5).map((p) => p[0]);
}

/** What was clamped or moved, said on top of the page. @param {HTMLElement} root */
function drawNotices(root) {
  const box = root.querySelector("[data-part=notices]");
  if (!box) return;
  const said = [...KS.notices, ...ledNotice(), ...comparisonNotice()];
  if (KS.state.view === "node") {
    const layer = layerNotice();
    if (layer) said.push(layer);
    const node = currentNode();
    if (node && KS.state.at && !node.pages[KS.state.at]) said.push(`${node.title} does not stand at “${KS.state.at.slice(0, 60)}”; it is shown at “${node.first || "the model itself"}”.`);
  }
  if (KS.payload && KS.state.model !== modelName()) said.push(`The address says model “${KS.state.model.slice(0, 40)}”; ${KS.payload.name} is shown.`);
  box.innerHTML = said.map((text) => `<p class="ks-notice" role="status">${escapeText(text)}</p>`).join("");
}

/** Excerpts and our lines are put into the page when they are opened, from where each is kept once.
 * @type {Part} */
function foldedSources(root) {
  const fill = (/** @type {Element} */ details) => {
    const box = /** @type {HTMLElement|null} */ (details.querySelector("[data-lines]"));
    if (!box || box.dataset.filled) return;
    box.dataset.filled = "yes";
    box.innerHTML = KS.payload.lines[box.dataset.lines ?? ""] ?? "";
  };
  for (const box of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-lines]"))) {
    const details = box.closest("details");
    if (!details || details.open) fill(box.parentElement ?? box);
    details?.addEventListener("toggle", () => { if (details.open) fill(details); });
  }
  return openOnPaper(root, fill);
}

/** Excerpts stand open on paper. @param {HTMLElement} root @param {(details: Element) => void} fill */
function openOnPaper(root, fill) {
  let opened = /** @type {HTMLDetailsElement[]} */ ([]);
  const before = () => {
    opened = /** @type {HTMLDetailsElement[]} */ ([...root.querySelectorAll(".ks-ev details:not([open])")]);
    for (const details of opened) { fill(details); details.open = true; }
  };
  const after = () => { for (const details of opened) details.open = false; };
  window.addEventListener("beforeprint", before);
  window.addEventListener("afterprint", after);
  return { draw: () => {}, stop: () => { window.removeEventListener("beforeprint", before); window.removeEventListener("afterprint", after); } };
}
