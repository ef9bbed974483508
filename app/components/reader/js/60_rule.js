// The context rule: a logarithmic slide rule from 1 to the longest context.

const STEPS_PER_DOUBLING = 100;
const RULE_PAD = 8;
const RULE_LINE = 26;
const DECADES = ["1", "10", "100", "1k", "10k", "100k", "1M", "10M"];

/** Where a context stands on a rule of some width. @param {number} context @param {number} wide */
function ruleAt(context, wide) {
  return RULE_PAD + ((wide - 2 * RULE_PAD) * Math.log2(context)) / Math.log2(longestContext());
}

/** @param {number} value @returns {number} */
function holdContext(value) {
  return Math.max(1, Math.min(longestContext(), Math.round(value) || 1));
}

/** @param {number} wide @returns {string} */
function ruleTicks(wide) {
  let svg = "";
  for (let decade = 0; decade < DECADES.length; decade += 1) {
    for (let digit = 1; digit < 10; digit += 1) {
      const value = digit * 10 ** decade;
      if (value > longestContext()) return svg + ruleEnd(wide);
      const tall = digit === 1 ? 9 : digit === 5 ? 6 : 4;
      const x = ruleAt(value, wide);
      svg += `<line x1="${x}" x2="${x}" y1="${RULE_LINE}" y2="${RULE_LINE + tall}" stroke="var(--soft)" stroke-width="${digit === 1 ? 1.2 : 0.8}"/>`;
      if (digit === 1) svg += `<text x="${x}" y="${RULE_LINE + 22}" text-anchor="${decade === 0 ? "start" : "middle"}"${decade === 0 ? ' dx="-3"' : ""}>${DECADES[decade]}</text>`;
    }
  }
  return svg;
}

/** The end of the rule is said where no decade lies close to it. @param {number} wide */
function ruleEnd(wide) {
  const most = longestContext();
  const decade = 10 ** Math.floor(Math.log10(most));
  const x = ruleAt(most, wide);
  const tick = `<line x1="${x}" x2="${x}" y1="${RULE_LINE}" y2="${RULE_LINE + 9}" stroke="var(--soft)" stroke-width="1.2"/>`;
  return x - ruleAt(decade, wide) < 40 ? tick : `${tick}<text x="${x}" y="${RULE_LINE + 22}" text-anchor="end">${showShort(most).replace(/\.?0+(?=[a-zA-Z]$)/, "")}</text>`;
}

/** @param {number} wide @returns {string} */
function ruleMarks(wide) {
  return (KS.payload?.marks ?? []).map((/** @type {any} */ mark) => {
    const x = ruleAt(mark.at, wide);
    const label = wide > 430 ? `<text class="ks-mark" data-x="${x}" x="${x}" y="${RULE_LINE - 12}" text-anchor="middle" style="fill:currentColor">${showInt(mark.at)}</text>` : "";
    return `<g style="color:var(--${mark.stream})"><path d="M${x} ${RULE_LINE - 1}l-4 -7h8z" fill="currentColor"><title>${escapeText(mark.means)}</title></path>${label}</g>`;
  }).join("");
}

/** @param {SVGElement} svg @param {number} wide */
function drawRule(svg, wide) {
  svg.setAttribute("viewBox", `0 0 ${wide} 60`);
  svg.innerHTML = `${ruleTicks(wide)}<line x1="${RULE_PAD}" x2="${wide - RULE_PAD}" y1="${RULE_LINE}" y2="${RULE_LINE}" stroke="var(--ink)" stroke-width="1.2"/>${ruleMarks(wide)}<g class="ks-hand"><line x1="0" x2="0" y1="4" y2="${RULE_LINE + 12}" stroke="var(--ink)" stroke-width="2"/><path d="M0 ${RULE_LINE + 6}l5 6l-5 6l-5 -6z" fill="var(--ink)"/></g>`;
}

/** Move the hand; labels of marks step aside. @param {SVGElement} svg @param {number} wide */
function placeHand(svg, wide) {
  const hand = ruleAt(KS.state.context, wide);
  svg.querySelector(".ks-hand")?.setAttribute("transform", `translate(${hand} 0)`);
  for (const label of /** @type {NodeListOf<SVGElement>} */ (svg.querySelectorAll(".ks-mark"))) {
    const x = Number(label.dataset.x);
    const near = Math.abs(hand - x) < 30;
    label.setAttribute("text-anchor", !near ? "middle" : hand >= x ? "end" : "start");
    label.setAttribute("x", String(!near ? x : hand >= x ? Math.min(x + 10, hand - 5) : Math.max(x - 10, hand + 5)));
  }
}

/** Where a key moves the context; undefined for keys that do not. @param {string} key @param {number} now @returns {number|undefined} */
function contextAfter(key, now) {
  const step = Math.max(1, Math.round(now * 0.01));
  return /** @type {Record<string, number>} */ ({
    PageUp: now * 2, PageDown: now / 2, ArrowUp: now + step, ArrowRight: now + step,
    ArrowDown: now - step, ArrowLeft: now - step, Home: 1, End: longestContext(),
  })[key];
}

/** Show a context at once; the address follows when the hand is let go.
 * @param {number} context */
function moveContext(context) {
  context = holdContext(context);
  if (context === KS.state.context) return;
  KS.state.context = context;
  showNumbers();
}

/** Put context and batch into the address; the server needs neither, so no message goes out. */
function keepContext() {
  setDetail({ context: KS.state.context === DEFAULT_CONTEXT ? null : KS.state.context, batch: KS.state.batch === 1 ? null : KS.state.batch }, false);
}
