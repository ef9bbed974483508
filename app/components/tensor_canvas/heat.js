// A slice of a tensor as a picture: a row per position, a column per feature.

const PHONE = 700;

/** Sizes in CSS pixels for this width. @param {Heat} data @param {number} width */
function layout(data, width) {
  const phone = width < PHONE;
  if (data.signs) return squares(data, width, phone);
  const stacked = phone && data.panels.length > 1;
  const rows = data.rows.labels.length;
  const labels = phone ? 58 : 88, gap = stacked ? 0 : 26;
  const tall = Math.min(data.tallest, rows <= 1 ? 28 : rows <= 36 ? 17 : rows <= 64 ? 13 : 8);
  const room = width - labels;
  const total = data.panels.reduce((sum, panel) => sum + panel.columns, 0);
  // few columns have room for their numbers
  const numbers = tall >= 13 && total <= 12, widest = numbers ? 72 : data.widest;
  const shared = (room - gap * (data.panels.length - 1)) / Math.max(1, total);
  let left = labels, top = 20;
  const boxes = data.panels.map((panel) => {
    const cell = Math.min(widest, stacked ? room / Math.max(1, panel.columns) : shared);
    const box = { left: stacked ? labels : left, top, cell, tall, width: cell * panel.columns, height: tall * rows, numbers: numbers && cell >= 40 };
    if (stacked) top += box.height + 62; else left += box.width + gap;
    return box;
  });
  const last = boxes[boxes.length - 1];
  return { phone, stacked, labels, boxes, rows, height: last.top + last.height + 30 };
}

/** Terms of a sum: squares of one size, as many in a line as stay readable. @param {Heat} data */
function squares(data, width, phone) {
  const rows = data.rows.labels.length, count = data.panels.length, gap = 32, foot = 66;
  const inLine = Math.max(1, Math.min(count, Math.floor((width + gap) / (130 + gap))));
  const columns = Math.max(1, data.panels[0].columns);
  const side = Math.min(230, (width - gap * (inLine - 1)) / inLine), cell = side / columns;
  const boxes = data.panels.map((_, p) => ({ left: (p % inLine) * (side + gap), top: 20 + Math.floor(p / inLine) * (cell * rows + foot),
    cell, tall: cell, width: side, height: cell * rows }));
  const last = boxes[count - 1];
  return { phone, stacked: true, labels: 0, boxes, rows, gap, height: last.top + last.height + 50 };
}

/** Whether a cell lies after its own position. @param {Panel} panel */
const isMasked = (panel, row, column) =>
  panel.causal_from !== null && column + panel.first_column > panel.causal_from + row;

/** The pixels of one panel. @param {HTMLCanvasElement} canvas */
function paint(root, canvas, panel, values, box, bound) {
  const ratio = devicePixelRatio || 1;
  const rows = Math.round(box.height / box.tall), columns = panel.columns;
  canvas.width = Math.max(1, Math.round(box.width * ratio));
  canvas.height = Math.max(1, Math.round(box.height * ratio));
  Object.assign(canvas.style, { left: box.left + "px", top: box.top + "px", width: box.width + "px", height: box.height + "px" });
  if (rows * columns === 0) return;
  const small = new OffscreenCanvas(columns, rows);
  const picture = new ImageData(columns, rows);
  const signed = diverging(root), paper = channels(token(root, "paper"));
  for (let i = 0; i < rows * columns; i++) {
    const value = values[i];
    const hidden = !Number.isFinite(value) || isMasked(panel, Math.floor(i / columns), i % columns);
    // a constant has no spread to show: the middle of its scale, its value stands beneath
    const share = panel.constant !== null || !bound ? (panel.signed ? 0 : 0.5) : value / bound;
    const rgb = hidden ? paper : panel.signed ? signed(share) : cividis(share);
    picture.data.set([rgb[0], rgb[1], rgb[2], 255], 4 * i);
  }
  small.getContext("2d").putImageData(picture, 0, 0);
  const brush = canvas.getContext("2d");
  brush.imageSmoothingEnabled = false;
  brush.drawImage(small, 0, 0, canvas.width, canvas.height);
  marks(root, brush, panel, values, { columns, rows, wide: canvas.width / columns, tall: canvas.height / rows, ratio, bound, divider: box.divider, numbers: box.numbers, ink: (share) => (panel.signed ? signed(share) : cividis(share)) });
}

/** Hatching where masked, × ▲ ▼ for what is no number, outlines beyond the scale. */
function marks(root, brush, panel, values, grid) {
  const { columns, rows, wide, tall, ratio, bound } = grid;
  const ink = token(root, "ink"), hatch = hatching(token(root, "rule"), ratio, brush);
  brush.textAlign = "center";
  brush.textBaseline = "middle";
  brush.font = `${Math.round(Math.min(tall, 15 * ratio))}px sans-serif`;
  brush.lineWidth = 1.2 * ratio;
  brush.strokeStyle = brush.fillStyle = ink;
  for (let i = 0; i < rows * columns; i++) {
    const value = values[i], x = (i % columns) * wide, y = Math.floor(i / columns) * tall;
    if (isMasked(panel, Math.floor(i / columns), i % columns)) {
      brush.fillStyle = hatch;
      brush.fillRect(x, y, wide, tall);
      brush.fillStyle = ink;
    } else if (!Number.isFinite(value)) {
      const glyph = Number.isNaN(value) ? "×" : value > 0 ? "▲" : "▼";
      if (wide >= 6 * ratio) brush.fillText(glyph, x + wide / 2, y + tall / 2);
      else brush.fillRect(x, y + tall / 4, wide, tall / 2);
    } else if (panel.clips && Math.abs(value) > bound && wide >= 4 * ratio) {
      brush.strokeRect(x + ratio, y + ratio, wide - 2 * ratio, tall - 2 * ratio);
    }
  }
  if (grid.numbers) numbers(brush, panel, values, grid);
  brush.fillStyle = token(root, "paper");
  for (const group of panel.groups.slice(1)) brush.fillRect(Math.round(group.start * wide) - ratio, 0, 2 * ratio, rows * tall);
  if (grid.divider) brush.fillRect(0, Math.round(grid.divider * tall) - ratio, columns * wide, 2 * ratio);
}

/** The values themselves, where a cell has room for them. */
function numbers(brush, panel, values, grid) {
  const { columns, rows, wide, tall, ratio, bound } = grid;
  brush.font = `${11 * ratio}px sans-serif`;
  for (let i = 0; i < rows * columns; i++) {
    if (!Number.isFinite(values[i]) || isMasked(panel, Math.floor(i / columns), i % columns)) continue;
    brush.fillStyle = isPale(grid.ink(bound ? values[i] / bound : 0)) ? "#111" : "#fff";
    brush.fillText(panel.whole ? String(values[i]) : brief(values[i]), (i % columns + 0.5) * wide, (Math.floor(i / columns) + 0.5) * tall + ratio);
  }
}

function hatching(colour, ratio, brush) {
  const size = Math.round(6 * ratio), tile = new OffscreenCanvas(size, size), pen = tile.getContext("2d");
  pen.strokeStyle = colour;
  pen.lineWidth = ratio;
  for (const shift of [-size, 0, size]) {
    pen.beginPath();
    pen.moveTo(shift, size);
    pen.lineTo(shift + size, 0);
    pen.stroke();
  }
  return brush.createPattern(tile, "repeat");
}

/** How many cells lie beyond the bound. @param {Panel} panel */
function beyond(panel, values, bound) {
  let count = 0;
  if (panel.clips) for (const value of values) if (Number.isFinite(value) && Math.abs(value) > bound) count++;
  return count;
}
