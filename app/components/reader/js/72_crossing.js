// The crossing chart: what one layer keeps against the context, both logarithmic; it can be dragged.

/** @type {Part} */
function crossingChart(root) {
  const svg = /** @type {SVGElement|null} */ (root.querySelector("[data-part=crossing]"));
  const chart = KS.payload.chart;
  if (!svg || !chart) return null;
  const lines = chart.lines.map((/** @type {any} */ line) => ({ ...line, formula: { decode: line.f, prefill: line.f, degree: 1 } }));
  let frame = crossingFrame(lines, 676);
  const draw = (/** @type {string} */ what) => {
    if (what !== "numbers") { frame = crossingFrame(lines, svg.parentElement?.clientWidth ?? 676); drawCrossing(svg, lines, frame); }
    moveCrossing(svg, lines, frame);
  };
  const watch = new ResizeObserver(() => draw("page"));
  if (svg.parentElement) watch.observe(svg.parentElement);
  const toContext = (/** @type {PointerEvent} */ event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * frame.wide;
    moveContext(2 ** ((Math.log2(longestContext()) * (x - frame.left)) / frame.w));
  };
  let dragging = false;
  svg.addEventListener("pointerdown", (event) => { dragging = true; svg.setPointerCapture(event.pointerId); toContext(event); });
  svg.addEventListener("pointermove", (event) => { if (dragging) toContext(event); });
  svg.addEventListener("pointerup", () => { if (dragging) keepContext(); dragging = false; });
  return { draw, stop: () => watch.disconnect() };
}

/** @param {any[]} lines @param {number} room */
function crossingFrame(lines, room) {
  const narrow = room < 560;
  const wide = narrow ? Math.max(280, room) : 676;
  const high = narrow ? 250 : 300;
  const left = 38, right = narrow ? 10 : 158, top = 14, bottom = 30;
  const batch = KS.state.batch;
  const ends = lines.flatMap((line) => [1, longestContext()].map((p) => (line.f[0] + line.f[1] * p) * batch)).filter((v) => v > 0);
  const low = Math.floor(Math.log10(Math.min(...ends)));
  return { narrow, wide, high, left, top, w: wide - left - right, h: high - top - bottom, low, top10: Math.ceil(Math.log10(Math.max(...ends))) };
}

/** @typedef {ReturnType<typeof crossingFrame>} CrossingFrame */

/** @param {CrossingFrame} f @param {number} context */
function crossX(f, context) { return f.left + (f.w * Math.log2(context)) / Math.log2(longestContext()); }

/** @param {CrossingFrame} f @param {number} value */
function crossY(f, value) { return f.top + f.h * (1 - (Math.log10(Math.max(value, 10 ** f.low)) - f.low) / (f.top10 - f.low)); }

/** @param {SVGElement} svg @param {any[]} lines @param {CrossingFrame} f */
function drawCrossing(svg, lines, f) {
  svg.setAttribute("viewBox", `0 0 ${f.wide} ${f.high}`);
  const base = f.top + f.h;
  let s = "";
  for (let d = f.low + ((3 - (f.low % 3)) % 3); d <= f.top10; d += 3) s += `<line class="ks-grid" x1="${f.left}" x2="${f.left + f.w}" y1="${crossY(f, 10 ** d)}" y2="${crossY(f, 10 ** d)}"/><text x="${f.left - 8}" y="${crossY(f, 10 ** d) + 4}" text-anchor="end">${showShort(10 ** d).replace(".00", "").replace(".0", "")}</text>`;
  for (let d = 0; 10 ** d <= longestContext(); d += 1) s += `<line class="ks-axis" x1="${crossX(f, 10 ** d)}" x2="${crossX(f, 10 ** d)}" y1="${base}" y2="${base + 5}"/><text x="${crossX(f, 10 ** d)}" y="${base + 19}" text-anchor="middle">${DECADES[d]}</text>`;
  s += `<line class="ks-axis" x1="${f.left}" x2="${f.left + f.w}" y1="${base}" y2="${base}"/><g data-g="lines"></g><g data-g="marks"></g><line data-g="cursor" y1="${f.top - 6}" y2="${base}" stroke="var(--ink)"/><text data-g="at" class="ks-strong" y="${f.top + 4}"></text><g data-g="dots"></g><g data-g="labels"></g><rect x="${f.left}" y="${f.top}" width="${f.w}" height="${f.h}" fill="transparent" style="cursor:ew-resize"/>`;
  svg.innerHTML = s;
}

/** What a drag or another batch moves. @param {SVGElement} svg @param {any[]} lines @param {CrossingFrame} f */
function moveCrossing(svg, lines, f) {
  const part = (/** @type {string} */ name) => /** @type {SVGElement} */ (svg.querySelector(`[data-g=${name}]`));
  const { context, batch } = KS.state;
  const at = (/** @type {any} */ line, /** @type {number} */ p) => (line.f[0] + line.f[1] * p) * batch;
  const most = longestContext();
  if (svg.dataset.batch !== String(batch) || !part("lines").innerHTML) {
    svg.dataset.batch = String(batch);
    part("lines").innerHTML = lines.map((l) => `<path d="M${crossX(f, 1)} ${crossY(f, at(l, 1))}L${crossX(f, most)} ${crossY(f, at(l, most))}" fill="none" stroke="var(--${l.stream})" stroke-width="${l.dash ? 2 : 2.25}"${l.dash ? ` stroke-dasharray="${l.dash}"` : ""}/>`).join("");
    part("marks").innerHTML = KS.payload.chart.crossings.map((/** @type {any} */ c) => `<circle cx="${crossX(f, c.at)}" cy="${crossY(f, c.value * batch)}" r="4.5" fill="var(--paper)" stroke="var(--${c.stream})" stroke-width="1.6"/><text x="${crossX(f, c.at) - 7}" y="${crossY(f, c.value * batch) - 9}" text-anchor="end" style="fill:var(--${c.stream});font-weight:600">${showInt(c.at)}</text>`).join("");
  }
  const x = crossX(f, context);
  const turn = x > f.left + f.w - 60;
  part("cursor").setAttribute("x1", String(x));
  part("cursor").setAttribute("x2", String(x));
  part("at").setAttribute("x", String(x + (turn ? -6 : 6)));
  part("at").setAttribute("text-anchor", turn ? "end" : "start");
  part("at").textContent = showInt(context);
  part("dots").innerHTML = lines.map((l) => `<circle cx="${x}" cy="${crossY(f, at(l, context))}" r="4" fill="var(--${l.stream})"/>`).join("");
  const ends = apart(lines.map((l) => crossY(f, at(l, most))), f.narrow ? 18 : 34, f.top + 6, f.top + f.h - 16);
  part("labels").innerHTML = f.narrow
    ? lines.map((l, i) => `<text x="${f.left + f.w - 4}" y="${ends[i] - 6}" text-anchor="end" style="fill:var(--${l.stream});font-weight:600">${escapeText(l.name)}</text>`).join("")
    : lines.map((l, i) => `<text x="${f.left + f.w + 12}" y="${ends[i] + 1}" style="fill:var(--${l.stream});font-weight:600;font-size:13px">${escapeText(l.name)}</text><text x="${f.left + f.w + 12}" y="${ends[i] + 16}" style="font-size:12.5px">${showShort(at(l, context))} at ${showInt(context)}</text>`).join("");
}

/** Heights pushed apart by at least `gap`, in their order. @param {number[]} heights @param {number} gap @param {number} top @param {number} bottom */
function apart(heights, gap, top, bottom) {
  const order = heights.map((_, i) => i).sort((a, b) => heights[a] - heights[b]);
  const moved = [...heights];
  order.forEach((i, rank) => { moved[i] = Math.max(top, rank ? moved[order[rank - 1]] + gap : moved[i], heights[i]); });
  for (let rank = order.length - 1; rank >= 0; rank -= 1) {
    const below = rank === order.length - 1 ? bottom : moved[order[rank + 1]] - gap;
    moved[order[rank]] = Math.min(moved[order[rank]], below);
  }
  return moved;
}
