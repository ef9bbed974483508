// Numbers in words of the page, and the polynomials behind every number that follows the rule.

const UNITS = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];

/** @param {number} value @returns {string} */
function showInt(value) {
  return Math.round(value).toLocaleString("en-US").replace("-", "−");
}

/** @param {number} value @returns {string} */
function showBytes(value) {
  let unit = 0;
  while (value >= 1024 && unit < UNITS.length - 1) { value /= 1024; unit += 1; }
  const digits = unit === 0 || value >= 1000 ? 0 : value >= 100 ? 1 : value >= 10 ? 1 : 2;
  const text = unit === 0 ? showInt(value) : value.toFixed(digits).replace(/\.0$/, "");
  return `${text}\u00a0${UNITS[unit]}`;
}

/** @param {number} value @returns {string} */
function showShort(value) {
  for (const [size, letter] of /** @type {[number, string][]} */ ([[1e15, "P"], [1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"]])) {
    if (value >= size) return (value / size).toFixed(value / size >= 100 ? 0 : value / size >= 10 ? 1 : 2) + letter;
  }
  return String(Math.round(value));
}

/** @param {number} value @returns {string} */
function showTimes(value) {
  const text = value >= 100 ? showInt(value) : value >= 10 ? value.toFixed(1) : value >= 1 ? value.toFixed(2) : value.toFixed(3);
  return `${text} times`;
}

/** @param {number} value @returns {string} */
function showFlops(value) {
  const units = ["", "k", "M", "G", "T", "P", "E", "Z"];
  let unit = 0;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${value.toFixed(unit === 0 || value >= 100 ? 0 : value >= 10 ? 1 : 2)}\u00a0${units[unit]}FLOP`;
}

/** @type {Record<string, (value: number) => string>} */
const FORMATS = { int: showInt, bytes: showBytes, short: showShort, flops: showFlops, times: showTimes, plain: String };

/**
 * c0 + c1·P + c2·P², times batch to a degree, one triple for decode and one for prefill.
 * @typedef {object} Formula
 * @property {number[]} decode @property {number[]} prefill @property {number} degree
 */

/** "1 0 0|0 1 0" holds decode and prefill; one triple serves both.
 * @param {string} text @param {string|undefined} degree @returns {Formula} */
function readFormula(text, degree) {
  const [decode, prefill] = text.split("|").map((part) => part.trim().split(/\s+/).map(Number));
  return { decode, prefill: prefill ?? decode, degree: Number(degree ?? 0) };
}

/** @param {Formula} formula @returns {number} */
function valueOf(formula) {
  const { context, batch, phase } = KS.state;
  const [c0, c1, c2] = phase === "decode" ? formula.decode : formula.prefill;
  return (c0 + context * (c1 + context * (c2 ?? 0))) * batch ** formula.degree;
}

/** @typedef {{element: Element, formula: Formula, over: Formula|null, show: (value: number) => string, wide: number}} LiveNumber */

/** Every element under `root` whose number follows the rule, read once a page.
 * @param {ParentNode} root @returns {LiveNumber[]} */
function liveNumbers(root) {
  return [...root.querySelectorAll("[data-f]")].map((element) => {
    const { f, b, over, fmt, bar } = /** @type {HTMLElement} */ (element).dataset;
    return {
      element,
      formula: readFormula(f ?? "0 0 0", b),
      over: over ? readFormula(over, b) : null,
      show: FORMATS[fmt ?? "int"] ?? showInt,
      wide: bar ? Number(bar) : 0,
    };
  });
}

/** @param {LiveNumber[]} numbers */
function fillNumbers(numbers) {
  for (const { element, formula, over, show, wide } of numbers) {
    const value = over ? valueOf(formula) / valueOf(over) : valueOf(formula);
    if (wide) { element.setAttribute("width", String(barWidth(value, wide))); continue; }
    const text = show(value);
    if (element.textContent !== text) element.textContent = text;
  }
}

const BAR_LOW = 9;
const BAR_HIGH = 37;

/** Width of a bar of bytes on the logarithmic scale of the cost table. @param {number} bytes @param {number} wide */
function barWidth(bytes, wide) {
  return bytes <= 0 ? 0 : wide * Math.min(1, Math.max(0.01, (Math.log2(bytes) - BAR_LOW) / (BAR_HIGH - BAR_LOW)));
}

/** Words and phases that follow the state. @param {ParentNode} root */
function fillWords(root) {
  const words = /** @type {Record<string, string>} */ ({ phase: KS.state.phase, batch: showInt(KS.state.batch), context: showInt(KS.state.context) });
  for (const element of root.querySelectorAll("[data-word]")) {
    const word = words[/** @type {HTMLElement} */ (element).dataset.word ?? ""];
    if (word !== undefined && element.textContent !== word) element.textContent = word;
  }
}

/** @param {string} text @returns {string} */
function escapeText(text) {
  return String(text).replace(/[&<>"']/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" })[c] ?? c);
}
