// What is on screen as a file: CSV, npy, PNG.

/** @param {View} view */
function exportLinks(view) {
  const link = (word, build) => make("button", { type: "button", class: "link", onclick: () => build(view) }, word);
  return make("div", { class: "field push" }, link("CSV", saveCsv), link("npy", saveNpy), link("PNG", savePng));
}

function save(name, parts, type) {
  const url = URL.createObjectURL(new Blob(parts, { type }));
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** A field of a CSV file; a leading = + - @ of a token must not become a formula. @param {string} text */
const field = (text) => `"${(/^[=+\-@\t\r]/.test(text) ? "'" : "") + text.replaceAll('"', '""')}"`;

function saveCsv({ data }) {
  const values = data.panels.map((panel) => valuesOf(panel.values));
  const names = data.panels.flatMap((panel) => [...Array(panel.columns).keys()].map((c) => field(`${panel.symbol} ${columnIndex(panel, c)}`)));
  const lines = data.rows.labels.map((label, row) => [data.rows.first + row, field(label),
    ...data.panels.flatMap((panel, p) => [...values[p].subarray(row * panel.columns, (row + 1) * panel.columns)])].join(","));
  save(data.name + ".csv", [[data.rows.word, "label", ...names].join(","), "\r\n", lines.join("\r\n")], "text/csv");
}

/** The npy format, version 1: magic, header, little-endian values in row order. */
function saveNpy({ data }) {
  data.panels.forEach((panel) => {
    const shape = `(${data.rows.labels.length}, ${panel.columns})`;
    const text = `{'descr': '<f4', 'fortran_order': False, 'shape': ${shape}, }`;
    const header = text.padEnd(Math.ceil((10 + text.length + 1) / 64) * 64 - 11) + "\n";
    const head = new Uint8Array([0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59, 1, 0, header.length & 255, header.length >> 8]);
    const suffix = data.panels.length > 1 ? "-" + panel.symbol : "";
    save(data.name + suffix + ".npy", [head, header, valuesOf(panel.values)], "application/octet-stream");
  });
}

function savePng({ data, root }) {
  const stage = root.querySelector(".stage"), ratio = devicePixelRatio || 1;
  const sheet = document.createElement("canvas");
  sheet.width = Math.min(16_384, stage.clientWidth * ratio);
  sheet.height = Math.min(16_384, stage.clientHeight * ratio);
  const brush = sheet.getContext("2d");
  brush.fillStyle = token(root, "paper");
  brush.fillRect(0, 0, sheet.width, sheet.height);
  brush.scale(ratio, ratio);
  const frame = stage.getBoundingClientRect();
  for (const canvas of stage.querySelectorAll("canvas")) {
    const at = canvas.getBoundingClientRect();
    if (at.width) brush.drawImage(canvas, at.left - frame.left, at.top - frame.top, at.width, at.height);
  }
  brush.textBaseline = "middle";
  for (const text of stage.querySelectorAll(".row, .heading, .end")) {
    const at = text.getBoundingClientRect(), style = getComputedStyle(text);
    brush.font = `${style.fontWeight} ${style.fontSize} ${style.fontFamily}`;
    // the chosen token is paper on ink, and only its word is drawn here
    brush.fillStyle = text.getAttribute("aria-pressed") === "true" ? token(root, "ink") : style.color;
    brush.textAlign = text.classList.contains("row") ? "right" : "left";
    brush.fillText(text.textContent, (brush.textAlign === "right" ? at.right - 3 : at.left) - frame.left, (at.top + at.bottom) / 2 - frame.top);
  }
  sheet.toBlob((blob) => save(data.name + ".png", [blob], "image/png"));
}
