// The overview: what this is, three ways in, the architecture graph.

/** @returns {string} */
function overviewHtml() {
  return `<div data-part="notices"></div>${KS.payload.overview}`;
}

/** @type {Part} */
function overviewParts(root) {
  const input = /** @type {HTMLInputElement|null} */ (root.querySelector("[data-handle=search-big]"));
  const list = /** @type {HTMLElement|null} */ (root.querySelector("[data-part=search-hits]"));
  const stops = /** @type {Array<() => void>} */ ([]);
  if (input && list) stops.push(attachSearch(input, list));
  const graph = architecture(root);
  if (graph?.stop) stops.push(graph.stop);
  return { draw: (what) => graph?.draw(what), stop: () => { for (const stop of stops) stop(); } };
}

/** @type {Part} */
function architecture(root) {
  const stack = /** @type {SVGElement|null} */ (root.querySelector("[data-part=stack]"));
  const layer = /** @type {SVGElement|null} */ (root.querySelector("[data-part=layer]"));
  if (!stack || !layer) return null;
  GRAPH.layer = releasedLayer(KS.state.layer < 0 ? firstFullLayer() : KS.state.layer);
  openFirst();
  const paint = () => {
    drawStack(stack, stack.parentElement?.clientWidth ?? 530);
    drawLayerGraph(layer, layer.parentElement?.clientWidth ?? 442);
    drawOverlays(root);
  };
  const act = (/** @type {Event} */ event) => {
    const target = /** @type {Element} */ (event.target);
    const cell = /** @type {HTMLElement|null} */ (target.closest("[data-row],[data-layer],[data-unfold],[data-overlay],[data-folds]"));
    if (!cell || (event instanceof KeyboardEvent && event.key !== "Enter" && event.key !== " ")) return;
    event.preventDefault();
    const asked = { ...cell.dataset }, isHeld = cell.contains(/** @type {ShadowRoot} */ (root.getRootNode()).activeElement);
    graphAct(cell.dataset);
    paint();
    if (isHeld) sameCell(root, asked)?.focus();
  };
  root.addEventListener("click", act);
  const onKey = (/** @type {KeyboardEvent} */ event) => { if (/** @type {Element} */ (event.target).matches(".ks-cell")) act(event); };
  root.addEventListener("keydown", onKey);
  const watch = new ResizeObserver(paint);
  watch.observe(/** @type {Element} */ (stack.parentElement));
  const draw = (/** @type {string} */ what) => { if (what !== "numbers" || GRAPH.overlay === "kept") paint(); };
  return { draw, stop: () => { watch.disconnect(); root.removeEventListener("click", act); root.removeEventListener("keydown", onKey); } };
}

/** The cell that was acted on, drawn anew, so that keys go on from there. @param {Element} root @param {DOMStringMap} asked */
function sameCell(root, asked) {
  const name = ["row", "layer", "unfold", "overlay", "folds"].find((key) => asked[key] !== undefined);
  const cells = /** @type {HTMLElement[]} */ ([...root.querySelectorAll(`[data-${name}]`)]);
  return cells.find((cell) => cell.dataset[name ?? ""] === asked[name ?? ""]);
}

function firstFullLayer() {
  return Math.max(0, runningLayers().mixers.indexOf("m"));
}

/** The chosen layer's mixer stands open at first, so that a first look shows what is inside. */
function openFirst() {
  if (GRAPH.unfolded.size) return;
  for (const line of linesOfLayer(GRAPH.layer)) {
    const entry = throughGroups(line);
    if (line.place === "kda" || line.place === "mla") GRAPH.unfolded.add(`>${entry.node}@${entry.at}`);
  }
}

/** @param {DOMStringMap} asked */
function graphAct(asked) {
  if (asked.overlay) GRAPH.overlay = asked.overlay;
  else if (asked.unfold) { if (!GRAPH.unfolded.delete(asked.unfold)) GRAPH.unfolded.add(asked.unfold); }
  else if (asked.row) { if (!GRAPH.open.delete(Number(asked.row))) GRAPH.open.add(Number(asked.row)); }
  else if (asked.layer) {
    GRAPH.layer = Number(asked.layer);
    GRAPH.open.add(Math.floor(GRAPH.layer / (KS.payload.layers.block ?? DEFAULT_ROW)));
    for (const line of linesOfLayer(GRAPH.layer)) if (line.place === "kda" || line.place === "mla") GRAPH.unfolded.add(`>${throughGroups(line).node}@${throughGroups(line).at}`);
  } else if (asked.folds === "open") {
    for (let row = 0; row < 40; row += 1) GRAPH.open.add(row);
    for (const line of linesOfLayer(GRAPH.layer)) unfoldAll(throughGroups(line), "");
  } else if (asked.folds === "close") { GRAPH.open.clear(); GRAPH.unfolded.clear(); GRAPH.unfolded.add(""); }
}

/** @param {Line} entry @param {string} path */
function unfoldAll(entry, path) {
  const here = `${path}>${entry.node}@${entry.at}`;
  if (entry.children.length) GRAPH.unfolded.add(here);
  for (const child of entry.children) unfoldAll(child, here);
}

/** @param {HTMLElement} root */
function drawOverlays(root) {
  const group = root.querySelector("[data-part=overlays]");
  const words = root.querySelector("[data-part=overlay-words]");
  if (!group || !words) return;
  const live = Object.entries(KS.run?.overlays ?? {}).map(([id, o]) => [id, /** @type {any} */ (o).label]);
  const choices = [["kind", "kind"], ["kept", "kept at this context"], ["parameters", "parameters"], ...live];
  group.innerHTML = choices.map(([id, label]) => `<button type="button" data-overlay="${escapeText(id)}" aria-pressed="${id === GRAPH.overlay}">${escapeText(label)}</button>`).join("");
  const { kept, parameters } = KS.payload.sizes;
  const bytes = (/** @type {number[]} */ f) => showBytes(valueOf({ decode: f, prefill: f, degree: 1 }));
  words.textContent = GRAPH.overlay === "kept"
    ? [kept.m && `MLA latent ${bytes(kept.m)}`, kept.k && `KDA ${bytes(kept.k)}`].filter(Boolean).join(", ") + " a layer, logarithmic"
    : GRAPH.overlay === "parameters" ? Object.values(parameters).map((v) => showShort(Number(v))).join(", ") + " a layer, logarithmic"
    : KS.run?.overlays?.[GRAPH.overlay]?.words ?? "";
}
