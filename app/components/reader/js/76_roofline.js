// The roof above a kernel: what memory and products of a GPU allow, and where one call stands under it.

const ROOF_HIGH = 280;
const ROOF_DECADES = 2;

/** @typedef {{id: string, name: string, bandwidth: number, peak: number}} Gpu */
/** @typedef {{flops: number, bytes: number, intensity: number}} Work */

/** The GPU of the address, or the first. @returns {Gpu} */
function chosenGpu() {
  const gpus = /** @type {Gpu[]} */ (KERNELS.get(KS.payload.model)?.pages.gpus ?? []);
  const asked = new URLSearchParams(location.search).get("gpu");
  return gpus.find((gpu) => gpu.id === asked) ?? gpus[0];
}

/** once, c0, c1, c2, hit and miss: `once + batch (c0 + c1 P + c2 P²) + hit (1 − miss^rows)`.
 * @param {number[]} growth @param {number} context */
function grown(growth, context) {
  const [once, c0, c1, c2, hit, miss] = growth;
  const { batch, phase } = KS.state;
  const rows = batch * (phase === "prefill" ? context : 1);
  return once + batch * (c0 + context * (c1 + context * c2)) + (hit ? hit * (1 - miss ** rows) : 0);
}

/** @param {any} load @param {number} context @returns {Work} */
function workAt(load, context) {
  const { flops, bytes } = load[KS.state.phase];
  const work = { flops: grown(flops, context), bytes: grown(bytes, context) };
  return { ...work, intensity: work.flops / work.bytes };
}

/** @param {Gpu} gpu @param {number} intensity */
function allowed(gpu, intensity) { return Math.min(gpu.peak, gpu.bandwidth * intensity); }

/** Seconds that no kernel can stay below. @param {Gpu} gpu @param {Work} work */
function leastTime(gpu, work) { return Math.max(work.flops / gpu.peak, work.bytes / gpu.bandwidth); }

/** @param {number} seconds @returns {string} */
function showTime(seconds) {
  for (const [size, unit] of /** @type {[number, string][]} */ ([[1, "s"], [1e-3, "ms"], [1e-6, "µs"]])) {
    if (seconds >= size) return `${threeDigits(seconds / size)}\u00a0${unit}`;
  }
  return `${threeDigits(seconds / 1e-9)}\u00a0ns`;
}

/** @param {number} value @returns {string} */
function threeDigits(value) {
  return value >= 1000 ? showInt(value) : value.toFixed(value >= 100 ? 0 : value >= 10 ? 1 : 2);
}

/** @type {Part} */
function roofline(root) {
  const svg = /** @type {SVGElement|null} */ (root.querySelector("[data-part=roofline]"));
  const held = KERNELS.get(KS.payload.model)?.pages;
  const load = held?.pages[KS.state.kernel]?.load;
  if (!svg || !load) return null;
  const gpus = /** @type {Gpu[]} */ (held.gpus);
  const choice = /** @type {HTMLElement} */ (root.querySelector("[data-part=gpus]"));
  choice.innerHTML = gpus.map((gpu) => `<button type="button" data-gpu="${escapeText(gpu.id)}">${escapeText(shortName(gpu))}</button>`).join("");
  choice.addEventListener("click", (event) => {
    const id = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("[data-gpu]"))?.dataset.gpu;
    if (!id) return;
    setDetail({ gpu: id === gpus[0].id ? null : id }, false);
    draw();
  });
  const draw = () => {
    const gpu = chosenGpu();
    const work = workAt(load, KS.state.context);
    for (const button of choice.children) button.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (button).dataset.gpu === gpu.id));
    drawRoof(svg, gpu, load, work);
    fillLoads(root, gpu, gpus, work);
  };
  const watch = new ResizeObserver(draw);
  if (svg.parentElement) watch.observe(svg.parentElement);
  return { draw, stop: () => watch.disconnect() };
}

/** @param {Gpu} gpu */
function shortName(gpu) { return gpu.name.replace(/^\w+ /, "").replace(/ \d+ GB| SXM/g, ""); }

/** @param {HTMLElement} root @param {Gpu} gpu @param {Gpu[]} gpus @param {Work} work */
function fillLoads(root, gpu, gpus, work) {
  const words = /** @type {Record<string, string>} */ ({
    flops: showFlops(work.flops),
    bytes: showBytes(work.bytes),
    intensity: threeDigits(work.intensity),
    time: `${showTime(leastTime(gpu, work))} on ${shortName(gpu)}`,
  });
  for (const slot of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-load]"))) slot.textContent = words[slot.dataset.load ?? ""];
  const rows = root.querySelector("[data-part=gpu-rows]");
  if (rows) rows.innerHTML = gpus.map((each) => gpuRow(each, work, each.id === gpu.id)).join("");
}

/** @param {Gpu} gpu @param {Work} work @param {boolean} chosen */
function gpuRow(gpu, work, chosen) {
  const ridge = gpu.peak / gpu.bandwidth;
  const name = chosen ? `<b>${escapeText(gpu.name)}</b>` : escapeText(gpu.name);
  const cell = (/** @type {string} */ label, /** @type {string} */ text) => `<td class="ks-n" data-l="${label}">${text}</td>`;
  return `<tr><td>${name}</td>${cell("memory, TB/s", (gpu.bandwidth / 1e12).toFixed(2))}${cell("products, TFLOP/s", showInt(gpu.peak / 1e12))}${cell("ridge", showInt(ridge))}${cell("bound by", work.intensity < ridge ? "memory" : "products")}${cell("time at best", `<b>${showTime(leastTime(gpu, work))}</b>`)}</tr>`;
}

/** @param {SVGElement} svg @param {Gpu} gpu @param {any} load @param {Work} work */
function drawRoof(svg, gpu, load, work) {
  const f = roofFrame(svg, gpu, load, work);
  svg.setAttribute("viewBox", `0 0 ${f.wide} ${ROOF_HIGH}`);
  const ridge = gpu.peak / gpu.bandwidth;
  const points = [f.low, ridge, f.high].map((x) => `${f.x(x)} ${f.y(allowed(gpu, x))}`);
  const x = f.x(work.intensity), y = f.y(allowed(gpu, work.intensity));
  const left = x > f.left + f.w * 0.6;
  const words = work.intensity < ridge ? "bound by memory" : "bound by products";
  svg.innerHTML = `${roofAxes(f)}<path d="M${points.join("L")}" fill="none" stroke="var(--ink)" stroke-width="2"/>
    <line class="ks-axis" x1="${f.x(ridge)}" x2="${f.x(ridge)}" y1="${f.y(gpu.peak)}" y2="${f.base}" stroke-dasharray="2 3"/><text x="${f.x(ridge)}" y="${f.y(gpu.peak) - 6}" text-anchor="middle">ridge ${showInt(ridge)}</text>
    ${roofTrail(f, gpu, load)}
    <line x1="${x}" x2="${x}" y1="${y}" y2="${f.base}" stroke="var(--ink)"/><circle cx="${x}" cy="${y}" r="5" fill="var(--ink)"/>
    <text class="ks-strong" x="${x + (left ? -8 : 8)}" y="${f.base - 24}" text-anchor="${left ? "end" : "start"}">${words}</text><text x="${x + (left ? -8 : 8)}" y="${f.base - 9}" text-anchor="${left ? "end" : "start"}">${threeDigits(work.intensity)} FLOPs a byte</text>`;
}

/** Where contexts from one position to the longest stand, as a band along the roof. @param {any} f @param {Gpu} gpu @param {any} load */
function roofTrail(f, gpu, load) {
  const ends = [1, longestContext()].map((context) => workAt(load, context).intensity).sort((a, b) => a - b);
  if (ends[1] / ends[0] < 1.05) return "";
  const ridge = gpu.peak / gpu.bandwidth;
  const along = [ends[0], ...(ends[0] < ridge && ridge < ends[1] ? [ridge] : []), ends[1]];
  return `<path d="M${along.map((i) => `${f.x(i)} ${f.y(allowed(gpu, i))}`).join("L")}" fill="none" stroke="var(--ink)" stroke-width="7" stroke-opacity=".18"><title>from one position to ${showInt(longestContext())}</title></path>`;
}

/** @param {SVGElement} svg @param {Gpu} gpu @param {any} load @param {Work} work */
function roofFrame(svg, gpu, load, work) {
  const room = svg.parentElement?.clientWidth ?? 676;
  const wide = Math.max(280, Math.min(room, 676));
  const left = 46, top = 14, bottom = 42;
  const w = wide - left - 12, h = ROOF_HIGH - top - bottom;
  const seen = [work.intensity, gpu.peak / gpu.bandwidth, workAt(load, longestContext()).intensity, workAt(load, 1).intensity];
  const low = 10 ** Math.floor(Math.log10(Math.min(...seen)) - 0.3);
  const high = 10 ** Math.ceil(Math.log10(Math.max(...seen)) + 0.3);
  const most = 10 ** Math.ceil(Math.log10(gpu.peak)), least = 10 ** Math.floor(Math.log10(allowed(gpu, low)));
  const share = (/** @type {number} */ v, /** @type {number} */ a, /** @type {number} */ b) => Math.log10(v / a) / Math.log10(b / a);
  return {
    wide, left, w, low, high, least, most, top, base: top + h,
    x: (/** @type {number} */ v) => left + w * share(v, low, high),
    y: (/** @type {number} */ v) => top + h * (1 - share(v, least, most)),
  };
}

/** @param {any} f */
function roofAxes(f) {
  let s = `<line class="ks-axis" x1="${f.left}" x2="${f.left + f.w}" y1="${f.base}" y2="${f.base}"/>`;
  const narrow = f.wide < 480;
  const skip = Math.log10(f.high / f.low) > 6 && narrow ? 2 : 1;
  for (let v = f.low, i = 0; v <= f.high * 1.001; v *= 10, i += 1) {
    s += `<line class="ks-axis" x1="${f.x(v)}" x2="${f.x(v)}" y1="${f.base}" y2="${f.base + 5}"/>`;
    if (i % skip === 0) s += `<text x="${f.x(v)}" y="${f.base + 19}" text-anchor="middle">${v < 1 ? Number(v.toPrecision(1)) : showShort(v).replace(/\.0+/, "")}</text>`;
  }
  for (let v = f.least; v <= f.most * 1.001; v *= 10 ** ROOF_DECADES) {
    s += `<line class="ks-grid" x1="${f.left}" x2="${f.left + f.w}" y1="${f.y(v)}" y2="${f.y(v)}"/><text x="${f.left - 8}" y="${f.y(v) + 4}" text-anchor="end">${showShort(v).replace(/\.0+/, "")}</text>`;
  }
  return `${s}<text x="${f.left + f.w}" y="${f.base + 36}" text-anchor="end">FLOPs a byte</text><text x="${f.left}" y="${f.top - 3}">FLOPs a second</text>`;
}
