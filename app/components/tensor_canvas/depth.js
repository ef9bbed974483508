// Weights over depth: a column per read, a row per source, and one softmax taken apart.

/** @param {View} view */
function depthView(view) {
  const { data, root, state } = view;
  const weights = valuesOf(data.weights), scores = valuesOf(data.scores);
  const most = data.sources.length;
  const at = (all, read, source) => all[((read * data.tokens.labels.length) + state.token - data.tokens.first) * most + source];
  if (state.token === null || state.token < data.tokens.first || state.token >= data.tokens.first + data.tokens.labels.length) state.token = data.token;
  if (state.read === null) state.read = data.read;
  const readout = make("div", { class: "readout", "aria-live": "polite" });
  const picture = make("div", { class: "stage chart" }), steps = make("div", { class: "steps" });
  const strip = make("div", { class: "tools" });

  const chooseToken = (place) => {
    state.token = place;
    address("token", place, false);
    redraw();
  };
  const choose = (read) => {
    state.read = Math.max(0, Math.min(data.reads.length - 1, read));
    redraw();
  };
  const say = (read, source) => {
    const spent = data.reads[read], name = data.sources[source];
    const sum = [...Array(most).keys()].reduce((total, s) => total + (spent.has[s] ? at(weights, read, s) : 0), 0);
    readout.textContent = `a[${spent.title}, position ${state.token} ${data.tokens.labels[state.token - data.tokens.first]}, source ${name.symbol}${name.index}]  ` +
      `${at(weights, read, source).toFixed(6)}   sum over ${spent.has.filter(Boolean).length} sources ${sum.toFixed(7)}`;
  };
  function redraw() {
    keepingFocus(root, () => strip.replaceChildren(tokenStrip(data.tokens, state.token, chooseToken), exports));
    picture.replaceChildren(depthPicture(root, data, state, (r, s) => at(weights, r, s), choose, say));
    steps.replaceChildren(...stepsPicture(root, data, state, (s) => at(scores, state.read, s), (s) => at(weights, state.read, s)));
    say(state.read, most - 1);
  }
  picture.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    choose(state.read + step);
    picture.querySelector("svg").focus();
  });
  const exports = make("div", { class: "field push" },
    make("button", { type: "button", class: "link", onclick: () => saveDepth(data, (r, s) => at(weights, r, s)) }, "CSV"));
  root.append(strip, readout, picture, provenance(data.provenance, [data.note]), depthTable(data, state, at, weights), steps);
  view.redraw = redraw;
  redraw();
}

/** @param {Depth} data */
function saveDepth(data, weight) {
  const lines = data.reads.map((read, r) => [field(read.title), ...data.sources.map((_, s) => (read.has[s] ? weight(r, s) : ""))].join(","));
  save(data.name + ".csv", [["read", ...data.sources.map((s) => field(s.title))].join(","), "\r\n", lines.join("\r\n")], "text/csv");
}

function depthTable(data, state, at, weights) {
  const details = make("details", {}, make("summary", {}, "as a table"));
  details.addEventListener("toggle", () => {
    if (!details.open) return;
    const head = make("tr", {}, make("th", { scope: "col" }, "read"), ...data.sources.map((s) => make("th", { scope: "col" }, s.title)));
    const body = data.reads.map((read, r) => make("tr", {}, make("th", { scope: "row" }, read.title),
      ...data.sources.map((_, s) => make("td", {}, read.has[s] ? at(weights, r, s).toFixed(6) : "–"))));
    const table = make("table", {}, make("caption", {}, `Weights at position ${state.token}`), make("thead", {}, head), make("tbody", {}, ...body));
    details.replaceChildren(details.firstElementChild, make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": "Weights over depth" }, table));
  });
  return details;
}

/** @param {Depth} data */
function depthPicture(root, data, state, weight, choose, say) {
  const width = Math.max(280, root.clientWidth), phone = width < PHONE, most = data.sources.length;
  const left = phone ? 34 : 116, right = phone ? 0 : 20, top = 8, tall = phone ? 26 : 38;
  const cell = (width - left - right) / data.reads.length, base = top + most * tall;
  const y = (source) => top + (most - 1 - source) * tall;
  const svg = draw("svg", { viewBox: `0 0 ${width} ${base + 58}`, width, height: base + 58, tabindex: "0", role: "img",
    "aria-label": `Weights of ${data.reads.length} reads over ${most} sources. Left and right arrows choose a read.` });
  data.sources.forEach((source, s) => {
    const label = draw("text", { x: left - 10, y: y(s) + tall / 2 + 4, "text-anchor": "end" }, phone ? "" : source.title + "  ");
    label.append(draw("tspan", { class: "letter" }, source.symbol), draw("tspan", { dy: 2, "font-size": 9 }, source.index));
    svg.append(label);
  });
  data.reads.forEach((read, r) => {
    const x = left + r * cell;
    data.sources.forEach((_, s) => {
      if (read.has[s]) svg.append(...depthCell(weight(r, s), { x, y: y(s), cell, tall, phone }, () => choose(r), () => say(r, s)));
    });
    svg.append(draw("path", { d: `M${x + 2} ${base + 7}h${Math.max(1, cell - 4)}`, class: "place " + read.place }));
    if (read.label) svg.append(draw("text", { x: x + (read.centred ? cell / 2 : cell), y: base + 25, "text-anchor": "middle" }, read.label));
    if (read.seals) svg.append(draw("path", { d: `M${x - 0.5} ${top - 6}V${base + 3}`, class: "seal" }));
  });
  svg.append(...depthLegend({ left, right, width, phone, y: base + 44 }));
  svg.append(draw("rect", { x: left + state.read * cell, y: top, width: cell, height: most * tall, class: "chosen" }));
  return svg;
}

function depthCell(value, at, choose, say) {
  const rgb = cividis(value);
  const square = draw("rect", { x: at.x + 0.5, y: at.y + 0.5, width: Math.max(1, at.cell - 1), height: at.tall - 1, fill: `rgb(${rgb})` });
  square.addEventListener("click", choose);
  square.addEventListener("pointermove", say);
  if (at.phone || at.cell < 24) return [square];
  const text = value < 0.995 ? value.toFixed(2).slice(1) : "1";
  return [square, draw("text", { x: at.x + at.cell / 2, y: at.y + at.tall / 2 + 4, "text-anchor": "middle", class: isPale(rgb) ? "number on-pale" : "number on-deep" }, text)];
}

function depthLegend({ left, right, width, phone, y }) {
  const parts = [draw("path", { d: `M${left} ${y}h16`, class: "place attention" }), draw("text", { x: left + 22, y: y + 4 }, phone ? "attention" : "before attention"),
    draw("path", { d: `M${left + (phone ? 84 : 128)} ${y}h16`, class: "place feed-forward" }), draw("text", { x: left + (phone ? 106 : 150), y: y + 4 }, phone ? "feed-forward" : "before feed-forward")];
  if (phone) return parts;
  parts.push(draw("path", { d: `M${left + 276} ${y - 6}v12`, class: "seal" }), draw("text", { x: left + 283, y: y + 4 }, "seal"));
  const bar = width - right - 174;
  for (let i = 0; i < 120; i++) parts.push(draw("rect", { x: bar + i, y: y - 4, width: 1.3, height: 8, fill: `rgb(${cividis(i / 119)})` }));
  parts.push(draw("text", { x: bar - 6, y: y + 4, "text-anchor": "end" }, "weight 0"), draw("text", { x: bar + 126, y: y + 4 }, "1"));
  return parts;
}
