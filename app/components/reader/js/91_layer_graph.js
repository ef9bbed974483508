// The architecture graph, right: the chosen layer as boxes from the outline, with typed edges between.

/** @typedef {{node: string, at: string, title: string, right: string, stream: string, kind: string, children: any[], place: string}} Line */
/** @typedef {{entry: Line, y: number, h: number, x: number, w: number, path: string}} Box */

const BOX = 27;

/** Entries of the outline that layer `i` of the model has. @param {number} i @returns {Line[]} */
function linesOfLayer(i) {
  const layers = KS.payload.layers;
  const group = KS.payload.outline.find((/** @type {Line} */ e) => e.place === "all" && e.children.length);
  return (group?.children ?? []).filter((/** @type {Line} */ e) => layerHas(e.place || "all", layers, i));
}

/** A group with one child and nothing else of its own is opened through. @param {Line} entry @returns {Line} */
function throughGroups(entry) {
  return entry.kind === "group" && entry.children.length === 1 && entry.children[0].children.length ? { ...entry.children[0], stream: entry.stream || entry.children[0].stream } : entry;
}

/** @param {SVGElement} svg @param {number} room */
function drawLayerGraph(svg, room) {
  const narrow = room < 430;
  const wide = narrow ? Math.max(300, room) : 442;
  const frame = { wide, left: narrow ? 26 : 34, right: wide - 34, y: 26, boxes: /** @type {Box[]} */ ([]), tops: /** @type {Box[]} */ ([]), svg: "" };
  const layers = KS.payload.layers;
  const i = Math.min(GRAPH.layer, layers.mixers.length - 1);
  const name = `Layer ${i}, ${layers.mixers[i] === "m" ? "latent attention" : "Kimi Delta Attention"} + ${layers.feeds[i] === "e" ? "experts" : "dense feed-forward"}`;
  for (const line of linesOfLayer(i)) placeLine(frame, throughGroups(line), 0, "");
  const rails = layerRails(frame, i);
  svg.setAttribute("viewBox", `0 0 ${wide} ${frame.y + 12}`);
  svg.setAttribute("aria-label", `${name}, ${frame.boxes.length} parts`);
  svg.innerHTML = `<text class="ks-t" x="${frame.left}" y="13" style="font-weight:600;font-size:14px">${escapeText(name)}</text>${frame.svg}${rails}${typedEdges(frame)}`;
}

/** @param {any} frame @param {Line} entry @param {number} depth @param {string} path */
function placeLine(frame, entry, depth, path) {
  const here = `${path}>${entry.node}@${entry.at}`;
  const folds = entry.children.length > 0;
  const open = folds && GRAPH.unfolded.has(here);
  const x = frame.left + 14 * depth;
  const w = frame.right - frame.left - 28 * depth;
  const top = frame.y;
  const box = { entry, y: top, h: BOX, x, w, path: here };
  if (!depth) frame.tops.push(box);
  if (!open) {
    frame.boxes.push(box);
    frame.svg += boxSvg(entry, x, top, w, BOX, folds ? here : "", false);
    frame.y += BOX + (depth ? 5 : 8);
    return;
  }
  frame.y += BOX;
  const before = frame.svg;
  frame.svg = "";
  for (const child of entry.children) placeLine(frame, child, depth + 1, here);
  const inside = frame.svg;
  frame.y += 3;
  frame.svg = `${before}${boxSvg(entry, x, top, w, frame.y - top, here, true)}${inside}`;
  frame.y += depth ? 5 : 8;
}

/** @param {Line} entry @param {number} x @param {number} y @param {number} w @param {number} h @param {string} fold @param {boolean} open */
function boxSvg(entry, x, y, w, h, fold, open) {
  const state = entry.kind.startsWith("state");
  const colour = entry.stream || "rule";
  const dash = entry.node.startsWith("moe/") && entry.stream === "routing" && !open ? ' stroke-dasharray="7 3 1.5 3"' : "";
  const ring = state ? `<rect x="${x + 3}" y="${y + 3}" width="${w - 6}" height="${h - 6}" fill="none" stroke="var(--${colour})"/>` : "";
  const shift = fold ? 24 : 11;
  const mark = fold ? `<g class="ks-cell" data-unfold="${escapeText(fold)}" role="button" tabindex="0" aria-expanded="${open}" aria-label="Unfold ${escapeText(entry.title)}"><rect x="${x}" y="${y}" width="24" height="${BOX}" fill="transparent"/><text x="${x + 10}" y="${y + 18}" class="ks-fold-mark" aria-hidden="true">${open ? "−" : "+"}</text></g>` : "";
  const room = Math.max(8, Math.floor((w - shift - 14 - 6.4 * entry.right.length) / 7));
  const title = entry.title.length > room ? `${entry.title.slice(0, room - 1)}…` : entry.title;
  return `<rect x="${x}" y="${y}" width="${w}" height="${h}" rx="2" fill="${open ? "none" : "var(--paper)"}" stroke="var(--${colour})" stroke-width="${state ? 1 : 1.2}"${dash}/>${ring}${mark}<a href="${escapeText(nodeAddress(entry.node, entry.at))}" data-node="${escapeText(entry.node)}" data-at="${escapeText(entry.at)}"><title>${escapeText(entry.title)}</title><text class="ks-t" x="${x + shift}" y="${y + 18}"${fold ? ' style="font-weight:600"' : ""}>${escapeText(title)}</text></a><text x="${x + w - 10}" y="${y + 18}" text-anchor="end">${escapeText(entry.right)}</text>`;
}

/** The running sum at the left and the bank at the right. @param {any} frame @param {number} i */
function layerRails(frame, i) {
  const sealed = KS.payload.layers.block !== null;
  const px = 10, bx = frame.wide - 12, end = frame.y + 4;
  let s = `<path d="M${px} 20V${end}" stroke="var(--residual)" stroke-width="2.4"/><path d="M${px} ${end + 6}l-5 -8h10z" fill="var(--residual)"/>`;
  if (sealed) s += `<path d="M${bx} 20V${end}" stroke="var(--residual)" stroke-width="1.5" stroke-dasharray="4 3"/><text transform="translate(${bx + 9} 110) rotate(90)" text-anchor="middle">bank</text>`;
  for (const { entry, y, h, x, w } of /** @type {Box[]} */ (frame.tops)) {
    const middle = y + h / 2;
    const right = x + w;
    if (/\/add/.test(entry.node)) s += `<path d="M${x} ${middle}H${px + 4}" stroke="var(--residual)" stroke-width="2.4"/><path d="M${px + 1} ${middle}l7 -4v8z" fill="var(--residual)"/>`;
    else if (entry.node.endsWith("/mix")) s += `<path d="M${px} ${middle}H${x - 5}" stroke="var(--residual)" stroke-width="2.4"/><path d="M${x} ${middle}l-7 -4v8z" fill="var(--residual)"/><path d="M${bx} ${middle}H${right + 6}" stroke="var(--residual)" stroke-width="1.5" stroke-dasharray="4 3"/><path d="M${right} ${middle}l7 -4v8z" fill="var(--residual)"/>`;
    else if (entry.node.endsWith("/seal")) s += `<path d="M${right} ${middle}H${bx - 3}" stroke="var(--ink)" stroke-width="1.6"/><rect x="${bx - 5}" y="${middle - 5}" width="10" height="10" fill="var(--ink)"/>`;
  }
  return s;
}

/** State, gate and routing edges between the boxes on screen, each drawn in its type.
 * @param {any} frame */
function typedEdges(frame) {
  const owner = new Map();
  for (const box of frame.boxes) collectOwners(box.entry, box, owner);
  const seen = new Set();
  let lane = 0, s = "";
  for (const [key, target] of owner) {
    const [node, at] = key.split("@");
    for (const edge of KS.payload.nodes[node]?.pages[at]?.from ?? []) {
      const source = owner.get(`${edge.node}@${edge.at}`);
      if (!source || source === target) continue;
      const kind = drawnKind(source.entry, target.entry, edge.kind);
      const id = `${source.path}|${target.path}|${kind}`;
      if (!kind || seen.has(id)) continue;
      seen.add(id);
      s += edgeBetween(source, target, kind, lane);
      lane = (lane + 1) % 3;
    }
  }
  return s;
}

/** The kind that the graph draws, empty for what the order of the boxes says already.
 * @param {Line} source @param {Line} target @param {string} kind */
function drawnKind(source, target, kind) {
  if (source.kind.startsWith("state") || target.kind.startsWith("state")) return "state";
  if (kind === "gate") return kind;
  return kind === "routing" && target.node.startsWith("moe/") ? kind : "";
}

/** @param {Line} entry @param {Box} box @param {Map<string, Box>} owner */
function collectOwners(entry, box, owner) {
  owner.set(`${entry.node}@${entry.at}`, box);
  for (const child of entry.children) collectOwners(child, box, owner);
}

/** @param {Box} a @param {Box} b @param {string} kind @param {number} lane */
function edgeBetween(a, b, kind, lane) {
  const ya = a.y + a.h / 2 + (kind === "state" ? 5 : 0), yb = b.y + b.h / 2 - (kind === "state" ? 5 : 0);
  if (kind === "state") {
    const out = Math.max(a.x + a.w, b.x + b.w) + 5 + lane * 3;
    const path = `M${a.x + a.w} ${ya}H${out}V${yb}H${b.x + b.w + 4}`;
    return `<path d="${path}" stroke="var(--state)" stroke-width="3.6" fill="none"/><path d="${path}" stroke="var(--paper)" stroke-width="1.3" fill="none"/><path d="M${b.x + b.w} ${yb}l6 -4v8z" fill="var(--state)"/>`;
  }
  const out = Math.min(a.x, b.x) - 4 - lane * 3;
  return `<path d="M${a.x} ${ya}H${out}V${yb}H${b.x - 4}" stroke="var(--${kind})" stroke-width="1.7" stroke-dasharray="${EDGE_DASH[kind]}" fill="none"/><path d="M${b.x} ${yb}l-6 -4v8z" fill="var(--${kind})"/>`;
}
