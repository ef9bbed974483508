// The same values as a table, built when it is opened.

const MOST_CELLS = 8_192;

/** @param {View} view */
function tableOf(view, values) {
  const { data, state } = view;
  const details = make("details", {}, make("summary", {}, "as a table"));
  const fill = () => {
    if (details.childElementCount === 1 && details.open) details.append(...data.panels.map((panel, p) => sheet(data, panel, values[p])));
    state.table = details.open;
  };
  details.addEventListener("toggle", fill);
  details.open = state.table;
  return details;
}

/** @param {Heat} data @param {Panel} panel */
function sheet(data, panel, values) {
  const columns = Math.min(panel.columns, Math.max(1, Math.floor(MOST_CELLS / Math.max(1, data.rows.labels.length))));
  const head = make("tr", {}, make("th", { scope: "col" }, data.rows.word),
    ...[...Array(columns).keys()].map((c) => make("th", { scope: "col" }, String(panel.column_labels ? panel.column_labels[c] : columnIndex(panel, c)))));
  const body = data.rows.labels.map((label, row) => make("tr", {}, make("th", { scope: "row" }, rowName(data, row)),
    ...[...Array(columns).keys()].map((c) => make("td", {}, isMasked(panel, row, c) ? "masked" : exact(values[row * panel.columns + c], panel)))));
  const part = columns < panel.columns ? `, the first ${columns} of ${panel.columns} columns; CSV has them all` : "";
  return make("div", { class: "wide", tabindex: "0", role: "region", "aria-label": panel.title },
    make("table", {}, make("caption", {}, panel.title + part), make("thead", {}, head), make("tbody", {}, ...body)));
}
