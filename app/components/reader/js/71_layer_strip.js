// The strip of all layers in the facts: this node's filled in; a click chooses the layer.

const STRIP_WIDE = 284;

/** @type {Part} */
function layerStrip(root) {
  const box = /** @type {HTMLElement|null} */ (root.querySelector("[data-part=strip]"));
  if (!box) return null;
  const title = /** @type {HTMLElement|null} */ (root.querySelector("[data-part=strip-title]"));
  const page = currentPage();
  const layers = /** @type {Layers} */ (KS.payload.layers);
  const count = layers.mixers.length;
  const holding = layersWith(page.where, layers);
  const pick = (/** @type {number} */ released) => {
    const layer = runningLayer(released, page.where);
    if (layer !== KS.state.layer) setDetail({ layer }, true);
  };
  const draw = (/** @type {string} */ what) => {
    if (what === "numbers") return;
    const shown = pricedLayer();
    box.innerHTML = stripSvg(layers, holding, shown, page);
    box.setAttribute("aria-valuenow", String(shown));
    box.setAttribute("aria-valuetext", `layer ${shown} of ${KS.payload.name}, running layer ${shownLayer()} of ${runningLayers().name}`);
    if (title) title.textContent = `${page.occurs} ${holding.length} of ${count} layers; shown: layer ${shown}${page.seals && layers.block !== null ? ". Marks above: seals" : ""}`;
  };
  box.addEventListener("click", (event) => {
    const frame = box.getBoundingClientRect();
    pick(Math.max(0, Math.min(count - 1, Math.floor(((event.clientX - frame.left) / frame.width) * count))));
  });
  box.addEventListener("keydown", (event) => {
    const among = layersWith(page.where, runningLayers());
    const at = among.indexOf(shownLayer());
    const next = { ArrowRight: at + 1, ArrowUp: at + 1, ArrowLeft: at - 1, ArrowDown: at - 1, Home: 0, End: among.length - 1 }[event.key];
    if (next === undefined) return;
    event.preventDefault();
    event.stopPropagation();
    if (among[next] !== undefined) setDetail({ layer: among[next] }, true);
  });
  return { draw };
}

/** @param {Layers} layers @param {number[]} holding @param {number} shown @param {any} page */
function stripSvg(layers, holding, shown, page) {
  const count = layers.mixers.length;
  const step = STRIP_WIDE / count;
  const held = new Set(holding);
  let svg = "";
  for (let i = 0; i < count; i += 1) {
    const wide = Math.max(1.2, held.has(i) ? step * 0.66 : step * 0.33);
    const x = i * step + (step - wide) / 2;
    svg += held.has(i)
      ? `<rect x="${x}" y="2" width="${wide}" height="14" fill="var(--${page.stream || "ink"})"/>`
      : `<rect x="${x}" y="6" width="${wide}" height="6" fill="var(--faint)" opacity=".55"/>`;
    if (page.seals && layers.block !== null && i % layers.block === 0) svg += `<rect x="${x}" y="-2" width="${Math.max(1.6, step * 0.66)}" height="3" fill="var(--ink)"/>`;
  }
  const at = (shown + 0.5) * step;
  return `<svg viewBox="0 0 ${STRIP_WIDE} 22" preserveAspectRatio="none" aria-hidden="true">${svg}<path d="M${at - 3.5} 22h7l-3.5 -4z" fill="var(--ink)"/></svg>`;
}
