// When a layer reads and when a block is sealed: a column a layer, a row a source.

/** @type {Part} */
function schedule(root) {
  const svg = /** @type {SVGElement|null} */ (root.querySelector("[data-part=schedule]"));
  if (!svg || KS.payload.layers.block === null) return null;
  const title = root.querySelector("[data-part=schedule-layer]");
  const reads = root.querySelector("[data-part=schedule-reads]");
  let layer = pricedLayer();
  const say = () => {
    const block = KS.payload.layers.block;
    const before = sourcesBefore(layer, block);
    if (title) title.textContent = `Layer ${layer}${layer % block === 0 ? ", seals" : ""}`;
    if (reads) reads.textContent = `${before} source${before > 1 ? "s" : ""} before attention${before === 1 ? ", so no mix" : ""}, ${Math.floor(layer / block) + 2} before the feed-forward`;
  };
  const paint = () => { drawSchedule(svg, svg.parentElement?.clientWidth ?? 1016, layer); say(); };
  const draw = (/** @type {string} */ what) => {
    if (what === "numbers" || what === "run") return;
    layer = pricedLayer();
    paint();
  };
  svg.addEventListener("pointermove", (event) => {
    const next = scheduleLayer(svg, event);
    if (next !== null && next !== layer) { layer = next; paint(); }
  });
  svg.addEventListener("click", (event) => {
    const next = scheduleLayer(svg, event);
    if (next !== null) setDetail({ layer: runningLayer(next, currentPage()?.where ?? "") }, true);
  });
  const watch = new ResizeObserver(paint);
  if (svg.parentElement) watch.observe(svg.parentElement);
  return { draw, stop: () => watch.disconnect() };
}

/** Sources of the mix before attention, the running sum included. @param {number} i @param {number} block */
function sourcesBefore(i, block) {
  return i === 0 ? 1 : Math.floor((i - 1) / block) + 2;
}

/** @param {SVGElement} svg @param {MouseEvent} event @returns {number|null} */
function scheduleLayer(svg, event) {
  const { left, column, count, wide } = /** @type {any} */ (svg).frame;
  const box = svg.getBoundingClientRect();
  const at = Math.floor((((event.clientX - box.left) / box.width) * wide - left) / column);
  return at >= 0 && at < count ? at : null;
}

/** @param {SVGElement} svg @param {number} wide @param {number} layer */
function drawSchedule(svg, wide, layer) {
  const { mixers, block } = /** @type {{mixers: string, block: number}} */ (KS.payload.layers);
  const count = mixers.length;
  const narrow = wide < 700;
  const left = narrow ? 58 : 118, right = narrow ? 4 : 20, row = narrow ? 13 : 16, top = 26;
  const seals = Math.ceil(count / block);
  const rows = seals + 1;
  const column = (wide - left - right) / count;
  const high = top + rows * row + 34;
  /** @type {any} */ (svg).frame = { left, column, count, wide };
  svg.setAttribute("viewBox", `0 0 ${wide} ${high}`);
  svg.style.height = `${high}px`;
  const y = (/** @type {number} */ j) => top + (rows - 1 - j) * row;
  const label = (/** @type {number} */ j, /** @type {string} */ name, /** @type {string} */ letter, /** @type {string} */ index) => `<text x="${left - 10}" y="${y(j) + row / 2 + 4}" text-anchor="end">${narrow ? "" : `${name}&#8194;`}<tspan font-style="italic" style="fill:var(--residual)">${letter}</tspan>${index ? `<tspan dy="2" font-size="9">${index}</tspan>` : ""}</text>`;
  let s = "";
  for (let j = 0; j < seals; j += 1) {
    // at the layer that seals, only the feed-forward sees the new source: half a column
    const from = left + (block * j + 0.5) * column;
    s += `${label(j, j === 0 ? "embedding" : `layers ${block * (j - 1)}–${block * j - 1}`, "b", String(j))}<rect x="${from}" y="${y(j) + 2}" width="${wide - right - from}" height="${row - 4}" fill="var(--residual)" opacity=".16"/>`;
  }
  s += label(seals, "running sum", "p", "");
  for (let i = 0; i < count; i += 1) s += `<rect x="${left + i * column + 0.8}" y="${y(seals) + 2}" width="${Math.max(1, column - 1.6)}" height="${row - 4}" fill="var(--residual)" opacity="${i % block === 0 ? 0.95 : 0.5}"/>`;
  for (let j = 0; j < seals; j += 1) {
    const x = left + (block * j + 0.5) * column;
    s += `<path d="M${x} ${y(seals) + row - 2}V${y(j) + 2}" stroke="var(--ink)" stroke-width="1.4"/><rect x="${x - 3.5}" y="${y(j) + row / 2 - 3.5}" width="7" height="7" fill="var(--ink)"/><text x="${x}" y="${top - 10}" text-anchor="middle" class="ks-strong">${block * j}</text>`;
  }
  s += `<text x="${left - 10}" y="${top - 10}" text-anchor="end">${narrow ? "seal" : "seal at layer"}</text>`;
  const x = left + layer * column;
  s += `<rect x="${x - 0.5}" y="${y(seals)}" width="${column + 1}" height="${rows * row}" fill="none" stroke="var(--ink)" stroke-width="1.2"/>`;
  const cell = (/** @type {number} */ j) => `<rect x="${x + 0.8}" y="${y(j) + 2}" width="${Math.max(1, column - 1.6)}" height="${row - 4}" fill="var(--residual)"/>`;
  for (let j = 0; j < sourcesBefore(layer, block) - 1; j += 1) s += cell(j);
  s += cell(seals);
  const foot = top + rows * row;
  for (let i = 0; i < count; i += 1) {
    const full = mixers[i] === "m";
    s += `<rect x="${left + i * column + 0.8}" y="${foot + 4}" width="${Math.max(1, column - 1.6)}" height="6" fill="${full ? "var(--key)" : "none"}" stroke="var(--${full ? "key" : "state"})" stroke-width=".8"/>`;
  }
  s += `<text x="${left - 10}" y="${foot + 11}" text-anchor="end">${narrow ? "kind" : "KDA or MLA"}</text>`;
  for (let i = 0; i < count; i += 20) s += `<text x="${left + (i + 0.5) * column}" y="${foot + 26}" text-anchor="middle">${i}</text>`;
  if ((count - 1) % 20 > 5) s += `<text x="${left + (count - 0.5) * column}" y="${foot + 26}" text-anchor="middle">${count - 1}</text>`;
  svg.innerHTML = `${s}<rect x="${left}" y="${top}" width="${count * column}" height="${rows * row}" fill="transparent" style="cursor:pointer"/>`;
}

/** Numbers of sources in the shape table follow the layer on screen. @type {Part} */
function sourcesOfLayer(root) {
  const places = /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-sources]"));
  const block = KS.payload.layers.block;
  if (!places.length || block === null) return null;
  const draw = () => {
    const layer = pricedLayer();
    const counts = /** @type {Record<string, number>} */ ({ mixer: sourcesBefore(layer, block), ffn: Math.floor(layer / block) + 2, out: Math.ceil(KS.payload.layers.mixers.length / block) + 1 });
    for (const place of places) place.textContent = showInt(counts[place.dataset.sources ?? "mixer"] - Number(place.dataset.less));
  };
  return { draw: (what) => { if (what !== "numbers") draw(); } };
}
