// One softmax, step by step: score, exponential, weight of each source.

/** @param {Depth} data */
function stepsPicture(root, data, state, score, weight) {
  const read = data.reads[state.read], label = data.tokens.labels[state.token - data.tokens.first];
  const head = make("div", { class: "section" }, make("h2", {}, "One softmax, step by step"),
    make("span", { class: "register" }, `${data.source}, ${read.title}, position ${state.token} ${label}`));
  const width = Math.max(280, root.clientWidth), phone = width < PHONE;
  const sources = data.sources.map((source, s) => ({ source, s })).filter(({ s }) => read.has[s]).reverse();
  const rows = sources.map(({ source, s }) => ({ name: source.title, score: score(s), weight: weight(s) }));
  const wide = phone ? width : Math.min(676, width), tall = 34, top = 30;
  const first = phone ? 82 : 112, column = (wide - first) / 3, bar = column - (phone ? 46 : 64);
  const size = Math.max(1.5, ...rows.map((row) => Math.abs(row.score))), largest = Math.max(...rows.map((row) => Math.exp(row.score)));
  const svg = draw("svg", { viewBox: `0 0 ${wide} ${top + rows.length * tall + 8}`, width: wide, height: top + rows.length * tall + 8, role: "img",
    "aria-label": rows.map((row) => `${row.name}: score ${row.score.toFixed(2)}, weight ${row.weight.toFixed(3)}`).join("; ") });
  ["score s", "exp s", "weight a"].forEach((word, c) => svg.append(draw("text", { x: first + c * column, y: 14, class: "head" }, word)));
  svg.append(draw("path", { d: `M0 20H${wide}`, class: "line" }));
  rows.forEach((row, i) => svg.append(...stepsRow(row, { y: top + i * tall, first, column, bar, size, largest, wide, tall })));
  return [head, svg];
}

function stepsRow(row, at) {
  const { y, first, column, bar } = at, half = bar * 0.4, zero = first + half;
  const length = (Math.abs(row.score) / at.size) * half, raised = Math.exp(row.score), grown = (raised / at.largest) * bar;
  return [
    draw("text", { x: 0, y: y + 16, class: "name" }, row.name),
    draw("path", { d: `M${zero} ${y}v24`, class: "axis" }),
    draw("rect", { x: row.score < 0 ? zero - length : zero, y: y + 7, width: length, height: 10, class: "bar" }),
    draw("text", { x: first + bar * 0.8 + 10, y: y + 16, class: "ink" }, (row.score < 0 ? "−" : "+") + Math.abs(row.score).toFixed(2)),
    draw("rect", { x: first + column, y: y + 7, width: grown, height: 10, class: "bar" }),
    draw("text", { x: first + column + grown + 6, y: y + 16, class: "ink" }, raised < 1000 ? raised.toFixed(2) : brief(raised)),
    draw("rect", { x: first + 2 * column, y: y + 7, width: bar, height: 10, class: "frame" }),
    draw("rect", { x: first + 2 * column, y: y + 7, width: row.weight * bar, height: 10, class: "weight" }),
    draw("text", { x: first + 2 * column + bar + 8, y: y + 16, class: "strong" }, row.weight.toFixed(3)),
    draw("path", { d: `M0 ${y + at.tall - 4}H${at.wide}`, class: "hair" }),
  ];
}
