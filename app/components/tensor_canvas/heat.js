// A slice of a tensor as a picture: a row per position, a column per feature.

const PHONE = 700;

/** Sizes in CSS pixels for this width. @param {Heat} data @param {number} width */
function layout(data, width) {
  const phone = width < PHONE;
  const stacked = phone && data.panels.length > 1;
  const rows = data.rows.labels.length;
  const labels = phone ? 58 : 88, gap = stacked ? 0 : 26;
  const tall = rows <= 1 ? 28 : rows <= 32 ? 17 : rows <= 64 ? 13 : 8;
  const room = width - labels;
  const total = data.panels.reduce((sum, panel) => sum + panel.columns, 0);
  const shared = (room - gap * (data.panels.length - 1)) / Math.max(1, total);
  let left = labels, top = 20;
  const boxes = data.panels.map((panel) => {
    const cell = Math.min(data.widest, stacked ? room / Math.max(1, panel.columns) : shared);
    const box = { left: stacked ? labels : left, top, cell, tall, width: cell * panel.columns, height: tall * rows };
    if (stacked) top += box.height + 62; else left += box.width + gap;
    return box;
  });
  const last = boxes[boxes.length - 1];
  return { phone, stacked, labels, boxes, rows, height: last.top + last.height + 30 };
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
  marks(root, brush, panel, values, { columns, rows, wide: canvas.width / columns, tall: canvas.height / rows, ratio, bound, divider: box.divider });
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
  brush.fillStyle = token(root, "paper");
  for (const group of panel.groups.slice(1)) brush.fillRect(Math.round(group.start * wide) - ratio, 0, 2 * ratio, rows * tall);
  if (grid.divider) brush.fillRect(0, Math.round(grid.divider * tall) - ratio, columns * wide, 2 * ratio);
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
