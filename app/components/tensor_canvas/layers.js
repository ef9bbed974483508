// A number a layer, in the blocks that residual sums make.

/** @param {View} view */
function layersView(view) {
  const { data, root } = view;
  const caption = make("div", { class: "caption" }, data.title), picture = make("div", { class: "chart plain" });
  const details = make("details", {}, make("summary", {}, "as a table"));
  const rows = data.values.map((value, i) => make("tr", {}, make("th", { scope: "row" }, `layer ${i}, ${data.mixers[i]}`), make("td", {}, value.toFixed(4))));
  details.append(make("table", {}, make("tbody", {}, ...rows)));
  root.append(caption, picture, provenance(data.provenance, []), details);
  view.redraw = () => picture.replaceChildren(layersPicture(root, data));
  view.redraw();
}

/** @param {LayerSeries} data */
function layersPicture(root, data) {
  const width = Math.max(280, root.clientWidth), height = 200, left = 34, right = 8, top = 12, bottom = 24;
  const wide = width - left - right, tall = height - top - bottom, count = data.values.length;
  const step = 10 ** Math.floor(Math.log10(Math.max(...data.values, 1e-6))), most = Math.ceil(Math.max(...data.values) / step) * step;
  const x = (i) => left + (wide * (i + 0.5)) / count, y = (value) => top + tall * (1 - value / most);
  const svg = draw("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `${data.title}: ${data.values.map((v) => brief(v)).join(", ")}` });
  for (const value of [0, most / 2, most]) {
    svg.append(draw("path", { d: `M${left} ${y(value)}H${width - right}`, class: value ? "hair" : "axis" }),
      draw("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end" }, brief(value)));
  }
  data.seals.forEach((layer, n) => {
    const at = left + (wide * layer) / count;
    svg.append(draw("path", { d: `M${at} ${top}V${top + tall}`, class: "seal" }));
    if (n === 1 && width > 420) svg.append(draw("text", { x: at + 5, y: top + 10 }, "seal, sum starts anew"));
  });
  const starts = new Set(data.seals);
  svg.append(draw("path", { class: "sum", d: data.values.map((v, i) => `${i === 0 || starts.has(i) ? "M" : "L"}${x(i)} ${y(v)}`).join("") }));
  data.values.forEach((value, i) => {
    svg.append(data.mixers[i] === "mla" ? draw("rect", { x: x(i) - 4.5, y: y(value) - 4.5, width: 9, height: 9, class: "mla" })
      : draw("circle", { cx: x(i), cy: y(value), r: 4, class: "kda" }));
    svg.append(draw("text", { x: x(i), y: height - 6, "text-anchor": "middle" }, String(i)));
  });
  return svg;
}
