// The lower half: where a node comes from and goes to, its neighbours, the foot.

const COPIED_SHOWN = 2000;

/** @param {HTMLElement} root */
function mountBelow(root) {
  let shown = "";
  const draw = (/** @type {string} */ what) => {
    if (!KS.payload || what === "numbers" || what === "waiting") return;
    const key = KS.state.view === "compare" ? comparisonKey() : [KS.hash, KS.state.view, KS.state.node, currentPlace()].join("|");
    if (key !== shown) { shown = key; root.innerHTML = belowHtml(); }
    paintThumbs(root);
    const run = root.querySelector("[data-part=measured]");
    if (run) run.innerHTML = measuredWords();
  };
  root.addEventListener("click", async (event) => {
    const copy = /** @type {Element} */ (event.target).closest("[data-part=copy]");
    if (!copy) return;
    event.preventDefault();
    try { await navigator.clipboard.writeText(location.href); copy.textContent = "Copied"; }
    catch { copy.textContent = location.href; return; }
    setTimeout(() => { copy.textContent = "Copy link"; }, COPIED_SHOWN);
  });
  return { draw, stop: () => {} };
}

/** @returns {string} */
function belowHtml() {
  const payload = KS.payload;
  const foot = `<p class="ks-foot">${comparison()?.foot ?? payload.foot} <span data-part="measured"></span> <a href="${escapeText(location.search)}" data-part="copy" role="button" aria-live="polite">Copy link</a></p>`;
  const page = KS.state.view === "node" ? currentPage() : null;
  if (!page) return foot;
  const [before, after] = page.around;
  const flow = page.from.length || page.to.length ? `<section><div class="ks-sh"><h2>Where it comes from, where it goes</h2></div>
    <div class="ks-flow"><div><h3>From</h3><ul>${page.from.map((/** @type {any} */ e) => edgeRow(e, true)).join("") || noEdge("No other part: parameters, settings, or the prompt.")}</ul></div>
    <div class="ks-here"><span data-thumb="${escapeText(page.taps[0] ?? "")}"></span>${escapeText(page.title)}</div>
    <div><h3>To</h3><ul>${page.to.map((/** @type {any} */ e) => edgeRow(e, false)).join("") || noEdge("Out of the model.")}</ul></div></div></section>` : "";
  const link = (/** @type {any} */ e) => `<a href="${escapeText(nodeAddress(e.node, e.at))}" data-node="${escapeText(e.node)}" data-at="${escapeText(e.at)}">${escapeText(e.title)}</a>`;
  return `${flow}<nav class="ks-pn" aria-label="Neighbours"><span>${before ? `<small>Previous</small>${link(before)}` : ""}</span><span>${after ? `<small>Next</small>${link(after)}` : ""}</span></nav>${foot}`;
}

/** @param {string} words */
function noEdge(words) { return `<li class="ks-soft">${words}</li>`; }

/** @param {any} edge @param {boolean} incoming */
function edgeRow(edge, incoming) {
  const arrow = edgeSvg(edge.stream, edge.kind);
  const name = edge.node
    ? `<a href="${escapeText(nodeAddress(edge.node, edge.at))}" data-node="${escapeText(edge.node)}" data-at="${escapeText(edge.at)}">${escapeText(edge.title)}</a>` : escapeText(edge.title);
  const words = `<span class="ks-grow">${name}<small>${edge.maths}</small></span><span data-thumb="${escapeText(edge.tap ?? "")}"></span>`;
  return `<li>${incoming ? words + arrow : arrow + words}</li>`;
}

const EDGE_DASH = /** @type {Record<string, string>} */ ({ latent: "7 3", gate: "1.5 3", routing: "7 3 1.5 3", read: "4 3" });

/** An arrow drawn in its type: colour by stream, line by kind. @param {string} stream @param {string} kind */
function edgeSvg(stream, kind) {
  const colour = `var(--${stream || "soft"})`;
  const line = kind === "state"
    ? '<path d="M0 3.2h56M0 6.8h56" stroke="currentColor" stroke-width="1.2"/>'
    : `<path d="M0 5h56" stroke="currentColor" stroke-width="${stream === "residual" && kind !== "read" ? 2.4 : 1.6}"${EDGE_DASH[kind] ? ` stroke-dasharray="${EDGE_DASH[kind]}"` : ""}/>`;
  return `<svg class="ks-edge" width="64" height="10" style="color:${colour}" aria-hidden="true">${line}<path d="M64 5l-8-4v8z" fill="currentColor"/></svg>`;
}

/** Small live pictures of this run into their slots; a tap of another page or run is not painted.
 * @param {HTMLElement} root */
function paintThumbs(root) {
  const run = KS.run;
  const mine = run && run.node === KS.state.node && run.layer === shownLayer();
  for (const slot of /** @type {NodeListOf<HTMLElement>} */ (root.querySelectorAll("[data-thumb]"))) {
    const thumb = mine ? run.thumbs?.[slot.dataset.thumb ?? ""] : undefined;
    const key = thumb ? `${run.run}/${run.layer}/${run.step}` : "";
    if (slot.dataset.shows === key) continue;
    slot.dataset.shows = key;
    slot.replaceChildren(...(thumb ? [thumbCanvas(thumb, slot.dataset.thumb ?? "")] : []));
  }
}

/** @param {{w: number, h: number, b64: string, lo: number, hi: number}} thumb @param {string} tap */
function thumbCanvas(thumb, tap) {
  const canvas = document.createElement("canvas");
  canvas.width = thumb.w;
  canvas.height = thumb.h;
  canvas.className = "ks-thumb";
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-label", `${tap}, ${thumb.h} by ${thumb.w}, from ${thumb.lo} to ${thumb.hi}`);
  const paint = canvas.getContext("2d");
  if (!paint) return canvas;
  const bytes = Uint8Array.from(atob(thumb.b64), (c) => c.charCodeAt(0));
  const style = getComputedStyle(document.querySelector(".stApp") ?? document.documentElement);
  const [low, zero, high] = ["--neg", "--zero", "--pos"].map((name) => hexColour(style.getPropertyValue(name)));
  const image = paint.createImageData(thumb.w, thumb.h);
  bytes.forEach((byte, i) => {
    const t = byte / 127.5 - 1;
    const end = t < 0 ? low : high;
    const strength = Math.min(1, Math.abs(t)) ** 0.85;
    for (let c = 0; c < 3; c += 1) image.data[4 * i + c] = zero[c] + (end[c] - zero[c]) * strength;
    image.data[4 * i + 3] = 255;
  });
  paint.putImageData(image, 0, 0);
  return canvas;
}

/** @param {string} hex */
function hexColour(hex) {
  const value = hex.trim();
  return [1, 3, 5].map((i) => parseInt(value.slice(i, i + 2), 16) || 0);
}

/** @returns {string} */
function measuredWords() {
  const run = KS.run;
  if (!run?.run) return "";
  return `Measured on ${escapeText(run.source ?? KS.state.source)}, run <code>${escapeText(String(run.run).slice(0, 12))}</code>${run.dtype ? `, ${escapeText(run.dtype)}` : ""}${run.device ? `, ${escapeText(run.device)}` : ""}.`;
}
