// Hover or focus one symbol, and every place of the same stream lights up: equation, shapes, code, prose.

const DRAWER_BELOW = 768;

/** @param {Event} event @param {boolean} on */
function lightSymbol(event, on) {
  const symbol = /** @type {Element|null} */ (event.target instanceof Element ? event.target.closest("[data-symbol]") : null);
  const name = symbol ? symbol.getAttribute("data-symbol") ?? "" : "";
  const stream = symbol ? symbol.getAttribute("data-stream") ?? "" : "";
  if (!symbol || !name) return;
  const scope = document.querySelectorAll(`.ks [data-symbol="${CSS.escape(name)}"]`);
  for (const place of scope) place.classList.toggle("ks-lit", on);
  announce("symbol", { stream, symbol: name, on });
}

/** Links and keys of the whole page, once however many mounts there are.
 * @returns {() => void} */
function listenToPage() {
  const over = (/** @type {Event} */ e) => lightSymbol(e, true);
  const out = (/** @type {Event} */ e) => lightSymbol(e, false);
  const pairs = /** @type {[string, (e: any) => void][]} */ ([
    ["pointerover", over], ["pointerout", out], ["focusin", over], ["focusout", out],
    ["click", followLink], ["keydown", pageKey],
  ]);
  for (const [name, hear] of pairs) document.addEventListener(name, hear);
  const back = () => {
    const { node, at, view, model, kernel } = KS.state;
    readAddress();
    const moved = node !== KS.state.node || at !== KS.state.at || view !== KS.state.view || kernel !== KS.state.kernel;
    if (model !== KS.state.model && modelName() !== KS.payload?.model) tellMounts("waiting");
    // a part of a comparison opens and closes where it stands
    showPage(moved && (view !== "compare" || KS.state.view !== view));
    tellMounts("numbers");
  };
  // our own notice to Streamlit is not trusted; a real step through the history is
  const pop = (/** @type {PopStateEvent} */ event) => { if (event.isTrusted) back(); };
  const run = (/** @type {Event} */ event) => { KS.run = /** @type {CustomEvent} */ (event).detail; tellMounts("run"); };
  const address = () => back();
  window.addEventListener("popstate", pop);
  window.addEventListener("kimiscope:run", run);
  window.addEventListener("kimiscope:address", address);
  return () => {
    for (const [name, hear] of pairs) document.removeEventListener(name, hear);
    window.removeEventListener("popstate", pop);
    window.removeEventListener("kimiscope:run", run);
    window.removeEventListener("kimiscope:address", address);
  };
}

/** Links to nodes change the page here; with a modifier key the browser opens them as links.
 * @param {MouseEvent} event */
function followLink(event) {
  const link = event.target instanceof Element ? event.target.closest(".ks a[data-node], .ks a[data-view], .ks a[data-scroll], .ks a[data-switch], .ks a[data-address]") : null;
  if (!link || event.defaultPrevented || event.button || event.metaKey || event.ctrlKey || event.shiftKey || event.altKey) return;
  event.preventDefault();
  closeDrawer(link);
  const { node, at, view, kernel, scroll, switch: model, address } = /** @type {HTMLElement} */ (link).dataset;
  if (scroll) document.querySelector(`.ks [data-section="${CSS.escape(scroll)}"]`)?.scrollIntoView();
  else if (address) goToAddress(address);
  else if (model) chooseModel(model);
  else if (view === "compare") goToComparison(/** @type {HTMLElement} */ (link).dataset);
  else if (view) goTo({ view, node, at, kernel });
  else goTo({ node: node ?? "", at: at ?? "", model: /** @type {HTMLElement} */ (link).dataset.model });
}

/** On a phone the sidebar lies over the page: a link in it closes it. @param {Element} link */
function closeDrawer(link) {
  if (window.innerWidth > DRAWER_BELOW || !link.closest('[data-testid="stSidebar"]')) return;
  /** @type {HTMLElement|null} */ (document.querySelector('[data-testid="stSidebarCollapseButton"] button'))?.click();
}

/** `/` to the search, J and K to the next and the previous node, arrows too where nothing else takes them.
 * @param {KeyboardEvent} event */
function pageKey(event) {
  const target = event.target instanceof Element ? event.target : null;
  if (event.defaultPrevented || event.metaKey || event.ctrlKey || event.altKey) return;
  if (target?.closest("input, textarea, select, [contenteditable=true], [role=slider], [role=combobox], canvas, svg [tabindex]")) return;
  if (event.key === "/") {
    const box = /** @type {HTMLElement|null} */ (document.querySelector(".ks [data-handle=search-big]") ?? document.querySelector(".ks [data-handle=search]"));
    if (!box) return;
    event.preventDefault();
    box.focus();
    return;
  }
  // arrows scroll and choose in much that can hold the focus; J and K are nobody else's
  const free = !target || target.matches("body, html, .ks a");
  const step = { j: 1, k: -1, ArrowRight: free ? 1 : 0, ArrowLeft: free ? -1 : 0 }[event.key];
  if (!step || KS.state.view !== "node") return;
  const next = currentPage()?.around[step === 1 ? 1 : 0];
  if (next) { event.preventDefault(); goTo({ node: next.node, at: next.at }); }
}
