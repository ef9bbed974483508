// The picture with its tools: head and scale, readout, row labels, hover, lock and keys.

/** @param {View} view */
function heatView(view) {
  const { data, root, state } = view;
  // the terms of a sum are followed at one place in all of them
  const linked = Boolean(data.signs), values = data.panels.map((panel) => valuesOf(panel.values));
  const stage = make("div", { class: "stage" });
  const readout = make("div", { class: "readout", "aria-live": "polite" });
  const held = data.panels.map(() => make("div", { class: "cell" })), bands = data.panels.map(() => make("div", { class: "band" }));
  const canvases = data.panels.map((panel, p) => canvasOf(view, panel, p));
  const bound = (p) => data.panels[p].bounds[state.scale] ?? data.panels[p].bounds.this;
  const clipped = make("span");
  root.append(tools(view), readout, stage,
    provenance(data.provenance, [data.note, clipped].filter(Boolean)), ...(linked ? [] : [statistics(data)]), tableOf(view, values));
  let plan = layout(data, Math.max(280, root.clientWidth));

  function redraw() {
    plan = layout(data, Math.max(280, root.clientWidth));
    keepingFocus(root, () => stage.replaceChildren(...canvases, ...bands, ...held, ...signs(data, plan), ...headings(data, plan), ...rowLabels(view, plan, chooseRow), ...scales(root, data, plan, bound)));
    stage.style.height = plan.height + "px";
    data.panels.forEach((panel, p) => paint(root, canvases[p], panel, values[p], { ...plan.boxes[p], divider: divider(data) }, bound(p)));
    const count = data.panels.reduce((sum, panel, p) => sum + beyond(panel, values[p], bound(p)), 0);
    clipped.textContent = data.panels.some((panel) => panel.clips && panel.statistics.count) ? `${count} ${count === 1 ? "cell" : "cells"} beyond ±3σ outlined` : "";
    mark();
  }

  /** The chosen row, the cell in hand and what it holds. */
  function mark() {
    const row = state.token === null ? -1 : state.token - data.rows.first;
    bands.forEach((band, p) => {
      const at = plan.boxes[p], shown = row >= 0 && row < plan.rows;
      band.style.cssText = shown ? `left:${at.left}px;top:${at.top + row * at.tall}px;width:${at.width}px;height:${at.tall}px` : "display:none";
    });
    const cell = state.lock ?? state.hover ?? { p: 0, row: Math.max(0, Math.min(plan.rows - 1, row)), column: 0 };
    const panel = data.panels[cell.p], is_empty = !panel || panel.columns * plan.rows === 0;
    held.forEach((box, p) => {
      const at = plan.boxes[p], shown = !is_empty && (state.lock || state.hover) && (linked || p === cell.p);
      box.style.cssText = shown ? `left:${at.left + cell.column * at.cell}px;top:${at.top + cell.row * at.tall}px;width:${at.cell}px;height:${at.tall}px` : "display:none";
    });
    readout.textContent = is_empty ? "no values"
      : (linked ? sum(data, values, cell) : sentence(data, panel, values[cell.p], cell)) + (state.lock ? "   locked" : "");
  }

  function chooseRow(row) {
    state.token = state.token === data.rows.first + row ? null : data.rows.first + row;
    state.lock = state.hover = null;
    if (state.token !== null && data.rows.is_position) address("token", state.token, data.ask_token);
    redraw();
  }

  canvases.forEach((canvas, p) => listen(canvas, data.panels[p], p, { state, mark, rows: () => plan.rows }));
  view.redraw = redraw;
  redraw();
}

/** The first row that decode appended, when both kinds are in view. @param {Heat} data */
function divider(data) {
  if (data.rows.new_from === null) return 0;
  const row = data.rows.new_from - data.rows.first;
  return row > 0 && row < data.rows.labels.length ? row : 0;
}

/** @param {View} view @param {Panel} panel */
function canvasOf(view, panel, p) {
  const { data } = view;
  return make("canvas", {
    tabindex: "0", role: "img", "data-panel": p,
    "aria-label": `${panel.title}, ${data.rows.labels.length} ${data.rows.axis} by ${panel.columns}. ` +
      "Arrow keys move a locked cell, Escape frees it; the same values stand in the table below.",
  });
}

/** Hover to peek, click to hold, arrows to move what is held. */
function listen(canvas, panel, p, hands) {
  const { state, mark, rows } = hands;
  const under = (event) => {
    const frame = canvas.getBoundingClientRect();
    const place = (share, count) => Math.max(0, Math.min(count - 1, Math.floor(share * count)));
    return { p, row: place((event.clientY - frame.top) / frame.height, rows()), column: place((event.clientX - frame.left) / frame.width, panel.columns) };
  };
  canvas.addEventListener("pointermove", (event) => {
    if (state.lock) return;
    state.hover = under(event);
    mark();
  });
  canvas.addEventListener("pointerleave", () => {
    state.hover = null;
    mark();
  });
  canvas.addEventListener("click", (event) => {
    state.lock = state.lock ? null : under(event);
    mark();
  });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[event.key];
    if (event.key === "Escape") state.lock = null;
    else if (event.key === "Enter" || event.key === " ") state.lock = state.lock ? null : state.hover ?? { p, row: 0, column: 0 };
    else if (step) {
      const from = state.lock && state.lock.p === p ? state.lock : { row: 0, column: -step[1] };
      const hold = (value, count) => Math.max(0, Math.min(count - 1, value));
      state.lock = { p, row: hold(from.row + step[0], rows()), column: hold(from.column + step[1], panel.columns) };
    } else return;
    event.preventDefault();
    event.stopPropagation();
    mark();
  });
}

/** Where a column stands in the tensor. @param {Panel} panel */
const columnIndex = (panel, column) => panel.first_column + column * panel.column_step;

/** A position with its token; the label alone where rows are no positions. @param {Heat} data @param {number} row */
function rowName(data, row) {
  const place = data.rows.first + row, label = data.rows.labels[row];
  return data.rows.is_position ? `${place} ${label}` : label || String(place);
}

/** Full index, token and value to six places. @param {Heat} data @param {Panel} panel */
function sentence(data, panel, values, cell) {
  const group = [...panel.groups].reverse().find((g) => cell.column >= g.start) ?? panel.groups[0];
  const place = `${data.rows.word} ${rowName(data, cell.row)}`;
  const column = panel.column_labels ? `${panel.column_word} ${panel.column_labels[cell.column]}`
    : `${group.word} ${columnIndex(panel, cell.column - group.start)}`;
  const head = data.tools.head === null ? "" : `head ${data.tools.head}, `;
  const hidden = isMasked(panel, cell.row, cell.column);
  const value = hidden ? "masked, after its own position" : exact(values[cell.row * panel.columns + cell.column], panel);
  return `${panel.symbol}[${head}${place}, ${column}]  ${value}`;
}

/** One place in every term. @param {Heat} data */
function sum(data, values, cell) {
  const terms = data.panels.map((panel, p) => {
    const value = values[p][cell.row * panel.columns + cell.column] * (data.signs[p] === "−" ? -1 : 1);
    const sign = value < 0 ? "−" : data.signs[p] === "=" ? "" : "+";
    return `${data.signs[p] === "=" ? "= " : ""}${sign}${Math.abs(value).toFixed(6)} ${panel.symbol}`;
  });
  return `head ${data.tools.head}, value ${cell.row}, key ${cell.column}:  ${terms.join("  ")}`;
}

/** @param {Heat} data */
function signs(data, plan) {
  return (data.signs ?? []).map((sign, p) => {
    const at = plan.boxes[p];
    return make("div", { class: "sign", "aria-hidden": "true", style: `left:${at.left - plan.gap}px;width:${plan.gap}px;top:${at.top + at.height / 2 - 14}px` }, at.left ? sign : "");
  });
}

/** @param {View} view */
function tools(view) {
  const { data, state } = view;
  const line = make("div", { class: "tools" });
  if (data.tools.heads > 1)
    line.append(segment("Head", [...Array(data.tools.heads).keys()].map((h) => [String(h), String(h)]), String(data.tools.head), (h) => {
      view.root.classList.add("stale");
      address("head", h, true);
    }));
  if (data.panels.some((panel) => panel.bounds.all !== undefined))
    line.append(segment("Scale", [["this", "this head"], ["all", "all heads"]], state.scale, (scale) => {
      state.scale = scale;
      view.render();
    }));
  line.append(exportLinks(view));
  if (!data.tools.tokens) return line;
  const strip = tokenStrip(data.tools.tokens, data.tools.token, (place) => {
    view.root.classList.add("stale");
    address("token", place, true);
  });
  return make("div", {}, line, make("div", { class: "tools" }, strip));
}

/** What stands over the columns. @param {Heat} data */
function headings(data, plan) {
  const axis = !plan.labels || data.rows.is_position || data.rows.labels.length < 2 ? [] : [make("div", { class: "heading axis", style: `left:0;width:${plan.labels - 9}px;top:0` }, data.rows.word)];
  return axis.concat(data.panels.flatMap((panel, p) => panel.groups.map((group) => {
    const at = plan.boxes[p], left = at.left + group.start * at.cell + (group.start ? 6 : 0);
    return make("div", { class: "heading" + (group.strong ? " strong" : ""), style: `left:${left}px;top:${at.top - 20}px;color:var(--${group.stream})` },
      (data.signs && p && !at.left ? data.signs[p] + " " : "") + (plan.phone ? group.short : group.title));
  })));
}

/** A button a row: the token at its position. Of low rows tokens stand in staggered columns, and of numbers only some. @param {View} view */
function rowLabels(view, plan, choose) {
  const { data, state } = view;
  if (!plan.labels) return [];
  const tops = plan.stacked ? plan.boxes : plan.boxes.slice(0, 1);
  const longestLabel = Math.max(1, ...data.rows.labels.map((text) => text.length));
  return tops.flatMap((box) => data.rows.labels.map((text, row) => {
    if (!data.rows.is_position && row % Math.ceil(12 / box.tall)) return "";
    const place = data.rows.first + row, fresh = data.rows.new_from !== null && place >= data.rows.new_from;
    const columns = data.rows.is_position ? Math.ceil(12 / box.tall) : 1, wide = Math.min((plan.labels - 6) / columns, columns > 1 ? 9 * longestLabel + 6 : plan.labels), right = 6 + (row % columns) * wide;
    const size = Math.min(12, box.tall > 12 ? box.tall - 3 : 11), longest = Math.max(1, Math.floor(wide / (size * 0.62)));
    return make("button", {
      type: "button", class: "row" + (fresh ? " new" : ""), "aria-pressed": String(state.token === place),
      "aria-label": `${data.rows.word} ${data.rows.is_position ? `${place}, ${text}` : rowName(data, row)}`, title: data.rows.ids ? `${data.rows.word} ${place}, id ${data.rows.ids[row]}` : null,
      style: `left:${plan.labels - right - wide + 2}px;width:${wide}px;top:${box.top + row * box.tall}px;font-size:${size}px;line-height:${box.tall}px;height:${Math.max(12, box.tall)}px`,
      onclick: () => choose(row),
    }, cut(text, longest));
  }));
}

/** The scale of each panel, under it, with its ends. @param {Heat} data */
function scales(root, data, plan, bound) {
  const norms = data.signs ? data.panels.map((panel, p) => make("div", { class: "scale", style: `left:${plan.boxes[p].left}px;top:${plan.boxes[p].top + plan.boxes[p].height + 6}px` }, `norm ${brief(panel.statistics.norm)}`)) : [];
  // one scale for all stands once, below the last line
  const scaled = data.signs ? [data.panels.length - 1] : [...data.panels.keys()];
  return norms.concat(scaled.map((p) => {
    const panel = data.panels[p], box = plan.boxes[p], end = bound(p);
    const at = data.signs ? { ...box, left: 0, width: root.clientWidth } : box, top = at.top + at.height + (data.signs ? 28 : 8);
    const place = `left:${at.left}px;top:${top}px`;
    if (panel.columns * plan.rows === 0) return make("div", { class: "scale", style: place }, `${panel.title}: ${plan.rows} by ${panel.columns}, no values`);
    if (panel.constant !== null) return make("div", { class: "scale", style: place }, `every value is ${exact(panel.constant, panel)}`);
    const bar = make("canvas", { width: 176, height: 7, "aria-hidden": "true" });
    const brush = bar.getContext("2d"), signed = diverging(root);
    for (let x = 0; x < 176; x++) {
      brush.fillStyle = `rgb(${panel.signed ? signed(x / 87.5 - 1) : cividis(x / 175)})`;
      brush.fillRect(x, 0, 1, 7);
    }
    bar.style.width = (plan.phone || at.width < 320 ? Math.max(60, Math.min(120, at.width - 150)) : 176) + "px";
    const words = plan.phone || at.width < 320 ? "" : " " + panel.scale_word;
    return make("div", { class: "scale", style: place }, make("span", { class: "end" }, panel.signed ? brief(-end) : "0"), bar,
      make("span", { class: "end" }, (panel.signed ? "+" : "") + brief(end) + words));
  }));
}

/** @param {Heat} data */
function statistics(data) {
  const line = make("div", { class: "provenance" }, make("span", { class: "mark derived" }, "derived"));
  for (const panel of data.panels) {
    const s = panel.statistics, name = data.panels.length > 1 ? panel.symbol + ": " : "";
    if (!s.count) {
      line.append(make("span", {}, `${name}no values`));
      continue;
    }
    line.append(make("span", {}, `${name}min ${brief(s.min)}  max ${brief(s.max)}  mean ${brief(s.mean)}  std ${brief(s.std)}  norm ${brief(s.norm)}`));
    const odd = [[s.nan, "× not a number"], [s.above, "▲ +∞"], [s.below, "▼ −∞"], [s.masked, "masked"]].filter(([count]) => count);
    for (const [count, word] of odd) line.append(make("span", { class: "odd" }, `${count} ${word}`));
  }
  return line;
}
