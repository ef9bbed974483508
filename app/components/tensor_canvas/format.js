// Numbers and arrays as the page writes them.

/** @param {number} value */
const minus = (value) => String(value).replace("-", "−");

/** Six places, a true minus, a sign where the scale has two sides. @param {number} value @param {Panel} panel */
function exact(value, panel) {
  if (Number.isNaN(value)) return "not a number";
  if (value === Infinity) return "+∞";
  if (value === -Infinity) return "−∞";
  if (panel.whole) return String(value);
  const size = Math.abs(value);
  const text = size !== 0 && (size < 1e-4 || size >= 1e6) ? value.toExponential(6) : value.toFixed(6);
  return (panel.signed && value > 0 ? "+" : "") + minus(text).replace("e+", "e");
}

/** Three digits for axes and statistics. @param {number} value */
function brief(value) {
  const size = Math.abs(value);
  if (size === 0) return "0";
  if (size >= 1e5 || size < 1e-3) return minus(value.toExponential(1)).replace("e+", "e");
  return minus(value.toFixed(size >= 100 ? 0 : size >= 10 ? 1 : size >= 0.1 ? 2 : 3));
}

/** Values as they are sent: float32 in base64. @param {string} text */
function valuesOf(text) {
  const raw = atob(text), bytes = new Uint8Array(raw.length);
  for (let i = 0; i < raw.length; i++) bytes[i] = raw.charCodeAt(i);
  return new Float32Array(bytes.buffer);
}
