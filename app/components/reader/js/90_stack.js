// The architecture graph, left: every layer of the model, a row for each residual block.

/** @typedef {{layer: number, overlay: string, open: Set<number>, unfolded: Set<string>}} GraphState */
/** @type {GraphState} */
const GRAPH = { layer: 3, overlay: "kind", open: new Set([0]), unfolded: new Set() };

const STACK_ROW = 46;
const STACK_TOP = 52;
const DEFAULT_ROW = 12;

/** @param {SVGElement} svg @param {number} room */
function drawStack(svg, room) {
  const layers = /** @type {Layers} */ (KS.payload.layers);
  const count = layers.mixers.length;
  const block = layers.block ?? DEFAULT_ROW;
  const rows = Math.ceil(count / block);
  const narrow = room < 480;
  const wide = narrow ? Math.max(300, room) : 530;
  const left = narrow ? 62 : 96, cell = narrow ? (wide - left - 40) / (block * 1.09) : 28, gap = narrow ? 3 : 9, rail = wide - (narrow ? 6 : 12);
  const at = (/** @type {number} */ k) => left + k * cell + Math.floor(k / 4) * gap;
  const frame = { wide, left, cell, at, rail, narrow, block, rows, count };
  let s = stackHead(frame);
  for (let row = 0; row < rows; row += 1) s += stackRow(frame, row, layers);
  s += stackFoot(frame, layers);
  svg.setAttribute("viewBox", `0 0 ${wide} ${STACK_TOP + rows * STACK_ROW + 78}`);
  svg.innerHTML = s;
}

/** @param {string} x @param {number} index */
function bankName(x, index) {
  return `<text ${x} text-anchor="end"><tspan font-style="italic" style="fill:var(--residual)">b</tspan><tspan dy="2" font-size="9">${index}</tspan></text>`;
}

/** A box that links to a node where the model has it. @param {string} id @param {string} title @param {string} inner */
function graphLink(id, title, inner) {
  return KS.payload.nodes[id] ? `<a href="${escapeText(nodeAddress(id, ""))}" data-node="${escapeText(id)}" data-at="" aria-label="${escapeText(title)}">${inner}</a>` : inner;
}

/** @param {any} f */
function stackHead(f) {
  const sealed = KS.payload.layers.block !== null;
  const bank = sealed ? `<path d="M${f.left + 144} 13.5H${f.rail}" stroke="var(--residual)" stroke-width="2.4"/><rect x="${f.rail - 5}" y="8.5" width="10" height="10" fill="var(--ink)"/>${bankName(`x="${f.rail - 12}" y="7"`, 0)}` : "";
  return `${graphLink("embed/tokens", "Token embedding", `<rect x="${f.left - 4}" y="0.7" width="148" height="26" fill="var(--paper)" stroke="var(--residual)" stroke-width="1.4"/><text class="ks-t" x="${f.left + 8}" y="18">Token embedding</text>`)}${bank}
    <path d="M${f.left - 4} 13.5H${f.left - 18}V${STACK_TOP + 15}H${f.left}" stroke="var(--residual)" stroke-width="2.4" fill="none"/>`;
}

/** @param {any} f @param {number} row @param {Layers} layers */
function stackRow(f, row, layers) {
  const y = STACK_TOP + row * STACK_ROW;
  const first = row * f.block;
  const n = Math.min(f.block, f.count - first);
  const sealed = layers.block !== null;
  const open = GRAPH.open.has(row) || GRAPH.overlay !== "kind";
  const end = f.at(n - 1) + f.cell - 5;
  let s = `<g class="ks-cell" data-row="${row}" role="button" tabindex="0" aria-expanded="${open}" aria-label="layers ${first}${n > 1 ? `–${first + n - 1}` : ""}"><rect x="-4" y="${y}" width="${f.left - 24}" height="30" fill="transparent"/><text x="0" y="${y + 19}"><tspan class="ks-fold-mark" aria-hidden="true">${open ? "−" : "+"}</tspan> ${first}${n > 1 ? `–${first + n - 1}` : ""}</text></g><path d="M${f.left} ${y + 15}H${end + 4}" stroke="var(--residual)" stroke-width="2.4"/>`;
  for (let k = 0; k < n; k += 1) {
    const run = open ? 1 : sameKind(layers.mixers, first + k, first + n);
    s += run > 1 ? stackGroup(f, first + k, run, f.at(k), y) : stackLayer(f, first + k, f.at(k), y, layers);
    k += run - 1;
  }
  if (!sealed) {
    if (row < f.rows - 1) s += `<path d="M${end + 4} ${y + 15}H${f.rail}V${y + STACK_ROW - 9}H${f.left - 18}V${y + STACK_ROW + 15}H${f.left}" stroke="var(--residual)" stroke-width="2.4" fill="none"/>`;
    return s;
  }
  if (row < f.rows - 1) s += `<path d="M${end + 4} ${y + 15}H${f.rail}" stroke="var(--residual)" stroke-width="2.4"/><rect x="${f.rail - 5}" y="${y + 10}" width="10" height="10" fill="var(--ink)"/>${bankName(`x="${f.rail - 11}" y="${y + 9}"`, row + 1)}`;
  if (row > 0) s += `<path d="M${f.rail} ${y - 9}H${f.left - 20}V${y + 15}H${f.left - 8}" stroke="var(--residual)" stroke-width="1.2" stroke-dasharray="4 3" fill="none"/><path d="M${f.left - 1} ${y + 15}l-7 -4v8z" fill="var(--residual)"/>`;
  return s;
}

/** How many layers from `i` on are KDA, one after another. @param {string} mixers @param {number} i @param {number} end */
function sameKind(mixers, i, end) {
  let run = 0;
  while (i + run < end && mixers[i + run] === "k") run += 1;
  return Math.max(1, run);
}

/** @param {any} f @param {number} i @param {number} run @param {number} x @param {number} y */
function stackGroup(f, i, run, x, y) {
  const wide = run * f.cell - 5;
  return `<g class="ks-cell" data-layer="${i}" role="button" tabindex="0" aria-label="layers ${i} to ${i + run - 1}, KDA"><title>layers ${i} to ${i + run - 1}, KDA</title><rect x="${x}" y="${y + 4}" width="${wide}" height="22" fill="var(--paper)" stroke="var(--state)" stroke-width="1.4"/><path d="M${x + 3} ${y + 1}H${x + wide + 3}V${y + 23}" fill="none" stroke="var(--state)"/><text x="${x + wide / 2}" y="${y + 19.5}" text-anchor="middle" style="fill:var(--state)">${f.narrow ? "" : "KDA "}× ${run}</text></g>`;
}

/** @param {any} f @param {number} i @param {number} x @param {number} y @param {Layers} layers */
function stackLayer(f, i, x, y, layers) {
  const full = layers.mixers[i] === "m";
  const wide = f.cell - 5;
  const tall = full ? 30 : 22;
  const colour = full ? "key" : "state";
  const share = overlayShare(i);
  const body = share === null
    ? `<rect x="${x}" y="${y + 15 - tall / 2}" width="${wide}" height="${tall}" fill="var(--${full ? "key" : "paper"})" stroke="var(--${colour})" stroke-width="1.4"/>`
    : `<rect x="${x}" y="${y}" width="${wide}" height="30" fill="var(--paper)" stroke="var(--${colour})"/><rect x="${x}" y="${y + 30 * (1 - share)}" width="${wide}" height="${30 * share}" fill="var(--${colour})"/>`;
  const chosen = i === GRAPH.layer ? `<rect x="${x - 3}" y="${y - 3}" width="${wide + 6}" height="36" fill="none" stroke="var(--ink)" stroke-width="2"/>` : "";
  const words = `layer ${i}, ${full ? "MLA" : "KDA"}, ${layers.feeds[i] === "e" ? "mixture of experts" : "dense feed-forward"}`;
  return `<g class="ks-cell" data-layer="${i}" role="button" tabindex="0" aria-label="${words}"><title>${words}</title>${body}${chosen}</g>`;
}

/** How full a layer's box is drawn under the chosen overlay, null for kinds. @param {number} i @returns {number|null} */
function overlayShare(i) {
  const layers = KS.payload.layers;
  const sizes = KS.payload.sizes;
  if (GRAPH.overlay === "kept") {
    const formula = { decode: sizes.kept[layers.mixers[i]], prefill: sizes.kept[layers.mixers[i]], degree: 1 };
    return Math.max(0.04, Math.min(1, (Math.log2(Math.max(1, valueOf(formula))) - 8) / 24));
  }
  if (GRAPH.overlay === "parameters") {
    const all = Object.values(sizes.parameters).map((v) => Math.log10(Number(v)));
    const low = Math.min(...all) - 0.6;
    return Math.max(0.04, (Math.log10(sizes.parameters[layers.mixers[i] + layers.feeds[i]]) - low) / (Math.max(...all) - low));
  }
  const live = KS.run?.overlays?.[GRAPH.overlay];
  if (!live) return null;
  const mine = [...Array(runningLayers().mixers.length).keys()].find((r) => releasedLayer(r) === i);
  const top = Math.max(...live.values);
  return mine === undefined ? 0 : Math.max(0.04, live.values[mine] / (top || 1));
}

/** @param {any} f @param {Layers} layers */
function stackFoot(f, layers) {
  const y = STACK_TOP + (f.rows - 1) * STACK_ROW;
  const out = y + STACK_ROW + 14;
  const n = f.count - (f.rows - 1) * f.block;
  const end = f.at(n - 1) + f.cell - 5;
  let s = "";
  if (layers.block !== null) {
    s += `<path d="M${f.rail} 18V${out - 4}" stroke="var(--residual)" stroke-width="1.5" stroke-dasharray="4 3"/>`;
    s += `<path d="M${end + 4} ${y + 15}H${end + 26}V${out - 4}" stroke="var(--residual)" stroke-width="2.4" fill="none"/>${f.narrow ? "" : `<text x="${end + 36}" y="${y + 19}">not sealed</text>`}`;
    s += graphLink("attn_res/output_mix", "Output mix over blocks", `<rect x="${f.left - 4}" y="${out - 4}" width="${f.rail - f.left + 4}" height="30" fill="var(--paper)" stroke="var(--residual)" stroke-width="1.4"/><text class="ks-t" x="${f.left + 8}" y="${out + 15}">Output mix over blocks</text><text x="${f.rail - 10}" y="${out + 15}" text-anchor="end">${f.rows + 1} sources</text>`);
    s += `<path d="M${f.left + 140} ${out + 26}v12" stroke="var(--residual)" stroke-width="2.4"/>`;
  } else {
    s += `<path d="M${end + 4} ${y + 15}H${f.rail}V${out + 14}H${f.left + 140}V${out + 38}" stroke="var(--residual)" stroke-width="2.4" fill="none"/>`;
  }
  return `${s}${graphLink("head/logits", "Final norm and LM head", `<text class="ks-t" x="${f.left - 4}" y="${out + 56}">Final norm, LM head</text>`)}<text x="${f.rail}" y="${out + 56}" text-anchor="end">logits over ${showInt(KS.payload.sizes.vocabulary)} tokens</text>`;
}
