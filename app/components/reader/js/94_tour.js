// The guided tour: on each of its pages a line says what to look at, and leads on.

/** @typedef {{number: number, title: string, look: string, prompt: string, address: string}} Station */

/** The stop that the address names, or none. @returns {Station|undefined} */
function currentStation() {
  return KS.state.view === "node" ? KS.payload.tour.find((/** @type {Station} */ stop) => stop.number === KS.state.tour) : undefined;
}

/** @returns {string} */
function tourHtml() {
  const here = currentStation();
  if (!here) return "";
  const all = /** @type {Station[]} */ (KS.payload.tour);
  const link = (/** @type {Station|undefined} */ stop, /** @type {string} */ word) => stop
    ? `<a href="${escapeText(stop.address)}" data-address="${escapeText(stop.address)}">${word}: ${escapeText(stop.title)}</a>` : "";
  const ways = [link(all[here.number - 2], "Back"), link(all[here.number], "Next")].filter(Boolean).join("");
  return `<aside class="ks-tour" aria-label="Guided tour"><p><b>Tour ${here.number} of ${all.length}</b> ${escapeText(here.look)}</p><p class="ks-tour-ways">${ways}<a href="?view=overview" data-view="overview">End the tour</a></p></aside>`;
}
