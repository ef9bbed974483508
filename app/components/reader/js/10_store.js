// The one store of the page: payload, address, and who wants to hear of changes.

/**
 * @typedef {object} State
 * @property {string} view @property {string} model @property {string} source
 * @property {string} node @property {string} at @property {number} layer @property {number} tour @property {string} kernel
 * @property {"prefill"|"decode"} phase @property {number} context @property {number} batch
 * @property {string[]} pair the models that are compared, the older first @property {string} show
 */

/**
 * @typedef {object} Store
 * @property {any} payload @property {string} hash @property {State} state
 * @property {any} run @property {string[]} notices
 * @property {{node: string, model: string, text: string}|null} led an address that led to another one
 * @property {Map<string, Set<(what: string) => void>>} mounts
 */

/** @type {Store} */
// on window, since the joined module may be loaded under more than one blob address
const KS = /** @type {any} */ (window).__kimiscope ??= {
  payload: null, hash: "", run: null, notices: [], led: null, mounts: new Map(),
  state: { view: "", model: "k3", source: "k3-mini", node: "", at: "", layer: -1, tour: 0, kernel: "", phase: "decode", context: 4096, batch: 1, pair: ["k2", "k3"], show: "all" },
};

const VIEWS = ["overview", "node", "compare", "weights", "proofs", "memory", "kernel"];
const EXAMPLE_NODE = "mla/kv_cache";
const DEFAULT_CONTEXT = 4096;
const TELL_AFTER = 30;
const BATCH_LIMIT = 4096;

/** The model asked for where it is one that can be read, else the one on screen. @returns {string} */
function modelName() {
  const models = /** @type {{id: string}[]} */ (KS.payload?.models ?? []);
  return models.some((m) => m.id === KS.state.model) ? KS.state.model : KS.payload?.model ?? KS.state.model;
}

/** The longest context of the model on screen, or of the two that are compared. @returns {number} */
function longestContext() {
  return comparison()?.max ?? (KS.payload ? KS.payload.max : 1048576);
}

/** A whole number from the address, held between two ends; faults are said in `notices`.
 * @param {string|null} text @param {string} name @param {number} low @param {number} high @param {number} fallback
 * @param {string[]} notices */
function wholeNumber(text, name, low, high, fallback, notices) {
  if (text === null || text === "") return fallback;
  const value = Number(text.replaceAll(",", ""));
  if (Number.isNaN(value) || !/^[-+\d.,e]+$/i.test(text.trim())) {
    notices.push(`The address says ${name} “${text.slice(0, 40)}”, which is not a number; shown with ${showInt(fallback)}.`);
    return fallback;
  }
  const held = Math.min(high, Math.max(low, Math.round(value)));
  if (held !== value) {
    notices.push(`The address says ${name} ${text.slice(0, 40)}; ${name} runs from ${showInt(low)} to ${showInt(high)}, so ${showInt(held)} is shown.`);
  }
  return held;
}

/** Read the address into the store. */
function readAddress() {
  const asked = new URLSearchParams(location.search);
  const notices = /** @type {string[]} */ ([]);
  const state = KS.state;
  state.model = asked.get("model") || "k3";
  state.source = asked.get("source") || "k3-mini";
  state.node = asked.get("node") || (asked.get("view") === "node" ? EXAMPLE_NODE : "");
  state.at = asked.get("at") || "";
  state.kernel = asked.get("kernel") || "";
  state.view = state.node ? "node" : "overview";
  const view = asked.get("view");
  if (view && VIEWS.includes(view)) state.view = view;
  else if (view) notices.push(`The address says view “${view.slice(0, 40)}”; there are ${VIEWS.join(", ")}, and ${state.view} is shown.`);
  const phase = asked.get("phase");
  state.phase = phase === "prefill" ? "prefill" : "decode";
  if (phase && phase !== "prefill" && phase !== "decode") {
    notices.push(`The address says phase “${phase.slice(0, 40)}”; there are prefill and decode, and decode is shown.`);
  }
  state.context = wholeNumber(asked.get("context"), "context", 1, longestContext(), Math.min(DEFAULT_CONTEXT, longestContext()), notices);
  state.batch = wholeNumber(asked.get("batch"), "batch", 1, BATCH_LIMIT, 1, notices);
  state.pair = readPair(asked, notices);
  state.show = readStanding(asked.get("show"), notices);
  const layer = asked.get("layer");
  state.layer = layer !== null && /^\d{1,6}$/.test(layer) ? Number(layer) : -1;
  state.tour = Number(asked.get("tour")) || 0;
  KS.notices = notices;
  leadOn();
}

/** The address with some parameters changed; an empty value takes a parameter away.
 * @param {Record<string, string|number|null>} changes @returns {string} */
function addressWith(changes) {
  const asked = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(changes)) {
    if (value === null || value === "") asked.delete(name);
    else asked.set(name, String(value));
  }
  const query = asked.toString().replaceAll("%2F", "/");
  return location.pathname + (query ? `?${query}` : "");
}

let tellTimer = 0;

/** Tell Streamlit that the address changed: it reads it again and reruns the script. A moment later,
 * so that our own page is painted first and steps in quick succession cost one rerun. */
function tellStreamlit() {
  clearTimeout(tellTimer);
  tellTimer = window.setTimeout(() => window.dispatchEvent(new PopStateEvent("popstate", { state: history.state })), TELL_AFTER);
}

/** @param {string} name @param {any} detail */
function announce(name, detail) {
  window.dispatchEvent(new CustomEvent(`kimiscope:${name}`, { detail }));
}

/** Every mount draws again what `what` concerns: "payload", "page", "numbers" or "run".
 * @param {string} what */
function tellMounts(what) {
  for (const listeners of KS.mounts.values()) for (const draw of listeners) draw(what);
}

/** Go to a node, the overview, or another view; makes a step in the history.
 * @param {{view?: string, node?: string, at?: string, model?: string, layer?: number|null, kernel?: string}} target */
function goTo(target) {
  const changes = /** @type {Record<string, string|number|null>} */ ({ view: target.view ?? null, node: target.node ?? null, at: target.at ?? null, kernel: target.kernel ?? null });
  if (target.layer !== undefined) changes.layer = target.layer;
  const { view, node, at, kernel } = KS.state;
  const same = kernel === (target.kernel ?? "") && (target.model ?? modelName()) === modelName() && view === (target.view ?? "node") && node === (target.node ?? "") && (at || currentNode()?.first || "") === (target.at ?? "");
  if (same) { scrollToTop(); return; }
  KS.led = null;
  changes.head = changes.token = changes.tour = null;
  const other = target.model !== undefined && target.model !== modelName();
  if (other) changes.model = target.model ?? null;
  history.pushState({}, "", addressWith(changes));
  readAddress();
  if (other) bringModel();
  else showPage(false);
  scrollToTop();
  tellStreamlit();
}

/** Go to a whole address of ours; makes a step in the history. @param {string} address */
function goToAddress(address) {
  KS.led = null;
  history.pushState({}, "", address);
  readAddress();
  showPage(true);
  tellStreamlit();
}

/** Change a detail of the page on screen; no step in the history.
 * @param {Record<string, string|number|null>} changes @param {boolean} serverNeedsIt */
function setDetail(changes, serverNeedsIt) {
  history.replaceState(history.state, "", addressWith(changes));
  if (!serverNeedsIt) return;
  readAddress();
  showPage(false);
  tellStreamlit();
}

/** Draw the page of the address. @param {boolean} moved whether another node came on screen */
function showPage(moved) {
  const { node, at, phase } = KS.state;
  tellMounts("page");
  announce("node", { node, at, layer: shownLayer(), phase, view: KS.state.view });
  if (moved) scrollToTop();
}

function scrollToTop() {
  const main = document.querySelector('[data-testid="stMain"]') ?? document.scrollingElement;
  if (main) main.scrollTop = 0;
}

/** Context, batch or phase moved: numbers follow without a trip to the server. */
function showNumbers() {
  const { context, batch, phase } = KS.state;
  tellMounts("numbers");
  announce("context", { context, batch, phase });
}

/** @param {string} model */
function chooseModel(model) {
  history.pushState({}, "", addressWith({ model, head: null, token: null }));
  KS.led = null;
  readAddress();
  bringModel();
  tellStreamlit();
}

/** The pages of the address's model: those that came before, or they are awaited. */
function bringModel() {
  const kept = PAYLOADS.get(KS.state.model);
  if (kept) usePayload(kept.hash, kept.payload);
  else tellMounts("waiting");
}
