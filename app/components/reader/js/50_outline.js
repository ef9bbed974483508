// The sidebar: brand, search, the model that is priced, the outline.

/** @param {HTMLElement} root */
function mountOutline(root) {
  root.innerHTML = `
    <div class="ks-brand"><a href="?view=overview" data-view="overview">Kimiscope</a></div>
    <nav class="ks-views" aria-label="Pages">${viewLinks()}</nav>
    <div class="ks-search" role="search" aria-label="From every page"><input data-handle="search" type="text" placeholder="Search nodes, symbols, code" aria-label="Search nodes, symbols, code" autocomplete="off" spellcheck="false"><kbd aria-hidden="true">/</kbd><div class="ks-hits" role="listbox" aria-label="Search results" hidden></div></div>
    <p class="ks-lab">Priced for</p>
    <div data-handle="model" role="group" aria-label="Model"><div class="ks-seg"></div><p class="ks-loaded"></p></div>
    <div data-part="tree"></div>`;
  const input = /** @type {HTMLInputElement} */ (root.querySelector("[data-handle=search]"));
  const stopSearch = attachSearch(input, /** @type {HTMLElement} */ (root.querySelector(".ks-hits")));
  const models = /** @type {HTMLElement} */ (root.querySelector("[data-handle=model]"));
  models.addEventListener("click", (event) => {
    const button = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("[data-model]"));
    if (button && button.dataset.model && button.dataset.model !== modelName()) chooseModel(button.dataset.model);
  });
  const tree = /** @type {HTMLElement} */ (root.querySelector("[data-part=tree]"));
  const drawTree = mountTree(tree);
  const draw = (/** @type {string} */ what) => {
    if (what === "numbers") return;
    drawModels(models);
    drawViews(root);
    // a page that mounts the tree apart gets it there only
    tree.hidden = KS.mounts.has("tree");
    if (!tree.hidden) drawTree(what);
  };
  return { draw, stop: stopSearch };
}

/** Pages that are of no single node. @returns {string} */
function viewLinks() {
  const pages = { overview: "Overview", compare: "Compare", weights: "Weights", proofs: "Proofs", memory: "Memory", kernel: "Kernels" };
  return Object.entries(pages).map(([view, words]) => `<a href="?view=${view}" data-view="${view}">${words}</a>`).join(" · ");
}

/** @param {HTMLElement} root */
function drawViews(root) {
  for (const link of root.querySelectorAll(".ks-views [data-view]")) {
    if (/** @type {HTMLElement} */ (link).dataset.view === KS.state.view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
}

/** @param {HTMLElement} group */
function drawModels(group) {
  const models = /** @type {{id: string, name: string, loaded: boolean}[]} */ (KS.payload?.models ?? []);
  const buttons = (/** @type {boolean} */ loaded) => models.filter((m) => m.loaded === loaded)
    .map((m) => `<button type="button" data-model="${escapeText(m.id)}" aria-pressed="${m.id === modelName()}">${escapeText(m.name)}</button>`).join("");
  const [released, loaded] = group.children;
  const html = buttons(false), own = buttons(true) && `or as it runs here: ${buttons(true)}`;
  if (released.innerHTML !== html) released.innerHTML = html;
  if (loaded.innerHTML !== own) loaded.innerHTML = own;
}

/** Groups the reader opened or closed by hand, by path. @type {Map<string, boolean>} */
const folds = new Map();

/** @param {HTMLElement} root */
function mountTree(root) {
  root.addEventListener("click", (event) => {
    const fold = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("[data-fold]"));
    if (!fold) return;
    setFold(root, fold.dataset.fold ?? "", fold.getAttribute("aria-expanded") !== "true");
  });
  root.addEventListener("keydown", (event) => treeKey(root, event));
  return (/** @type {string} */ what) => { if (what !== "numbers" && KS.payload) drawTreeOf(root, what); };
}

/** @param {HTMLElement} root @param {string} path @param {boolean} open */
function setFold(root, path, open) {
  folds.set(path, open);
  const button = root.querySelector(`[data-fold="${CSS.escape(path)}"]`);
  button?.setAttribute("aria-expanded", String(open));
  const list = button?.closest("li")?.querySelector("ul");
  if (list) list.hidden = !open;
}

/** Arrows move along the visible lines; left and right fold and unfold. @param {HTMLElement} root @param {KeyboardEvent} event */
function treeKey(root, event) {
  const lines = /** @type {HTMLElement[]} */ ([...root.querySelectorAll("a[data-node]")]).filter((a) => a.offsetParent !== null);
  const at = lines.indexOf(/** @type {HTMLElement} */ (event.target));
  if (at < 0) return;
  const fold = lines[at].closest("li")?.querySelector(":scope > div > [data-fold]");
  if (event.key === "ArrowDown" || event.key === "ArrowUp") {
    event.preventDefault();
    lines[at + (event.key === "ArrowDown" ? 1 : -1)]?.focus();
  } else if ((event.key === "ArrowRight" || event.key === "ArrowLeft") && fold) {
    event.preventDefault();
    setFold(root, /** @type {HTMLElement} */ (fold).dataset.fold ?? "", event.key === "ArrowRight");
  } else return;
  event.stopPropagation();
}

/** @param {HTMLElement} root @param {string} what */
function drawTreeOf(root, what) {
  if (what === "payload" || root.dataset.hash !== KS.hash) {
    root.dataset.hash = KS.hash;
    root.innerHTML = `<p class="ks-lab ks-outlab">Outline <span>parameters</span></p><nav data-handle="outline" aria-label="Outline"><ul class="ks-tree">${KS.payload.outline.map((/** @type {any} */ e) => treeLine(e, "")).join("")}</ul></nav>`;
  }
  const place = currentPlace();
  let current = /** @type {Element|null} */ (null);
  for (const link of root.querySelectorAll("a[data-node]")) {
    const { node, at } = /** @type {HTMLElement} */ (link).dataset;
    // a node may stand in one place under two groups: the first line counts
    const here = KS.state.view === "node" && node === KS.state.node && (at || "") === place && !current;
    if (here) { link.setAttribute("aria-current", "page"); current = link; } else link.removeAttribute("aria-current");
  }
  const here = `${KS.state.view} ${KS.state.node}`;
  walk.begun ||= here;
  walk.isOn ||= here !== walk.begun;
  openPathTo(root, current);
}

/** Where the reader came in, and whether they have gone on: on arrival the prompt above stays in sight. */
const walk = { begun: "", isOn: false };

/** Unfold what holds the node on screen; other groups stay as the reader left them.
 * @param {HTMLElement} root @param {Element|null} current */
function openPathTo(root, current) {
  for (const button of root.querySelectorAll("[data-fold]")) {
    const path = /** @type {HTMLElement} */ (button).dataset.fold ?? "";
    const item = button.closest("li");
    const holds = current !== null && item !== null && item.contains(current);
    const open = holds || (folds.get(path) ?? button.hasAttribute("data-open"));
    button.setAttribute("aria-expanded", String(open));
    const list = item?.querySelector("ul");
    if (list) list.hidden = !open;
  }
  const box = current?.closest('[data-testid="stSidebarContent"]');
  if (!box || !current || !walk.isOn) return;
  const line = current.getBoundingClientRect();
  const frame = box.getBoundingClientRect();
  if (line.top < frame.top + 40 || line.bottom > frame.bottom) box.scrollTop += line.top - frame.top - frame.height / 3;
}

/** @param {any} entry @param {string} path @returns {string} */
function treeLine(entry, path) {
  const here = `${path}>${entry.node}@${entry.at}`;
  const address = nodeAddress(entry.node, entry.at);
  const fold = entry.children.length
    ? `<button type="button" class="ks-fold" data-fold="${escapeText(here)}"${path === "" && entry.place === "all" ? " data-open" : ""} aria-expanded="true" aria-label="Fold or unfold ${escapeText(entry.title)}"></button>` : "";
  const children = entry.children.length ? `<ul>${entry.children.map((/** @type {any} */ e) => treeLine(e, here)).join("")}</ul>` : "";
  return `<li><div>${fold}<a href="${escapeText(address)}" data-node="${escapeText(entry.node)}" data-at="${escapeText(entry.at)}"><span>${escapeText(entry.title)}</span><i>${escapeText(entry.right ?? "")}</i></a></div>${children}</li>`;
}

/** A link's address, without what belongs to the page on screen. @param {string} node @param {string} at */
function nodeAddress(node, at) {
  return `?model=${encodeURIComponent(modelName())}&node=${encodeURIComponent(node).replaceAll("%2F", "/")}${at ? `&at=${encodeURIComponent(at)}` : ""}`;
}
