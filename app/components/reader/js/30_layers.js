// Layers: the released model's, the running model's, and which of one stands for which of the other.

/** @typedef {{mixers: string, feeds: string, block: number|null, name: string}} Layers */

/** Layers of the running source, or of the released model where the source is not known here. @returns {Layers} */
function runningLayers() {
  const known = KS.payload?.sources ?? {};
  return known[KS.state.source] ?? KS.run?.layers ?? known["k3-mini"] ?? KS.payload?.layers;
}

/** The node's own places among layers, as a test of one layer.
 * @param {string} where "", or a place of the outline @param {Layers} layers @param {number} i */
function layerHas(where, layers, i) {
  if (where === "all") return true;
  if (where === "kda") return layers.mixers[i] === "k";
  if (where === "mla") return layers.mixers[i] === "m";
  if (where === "dense") return layers.feeds[i] === "d";
  if (where === "moe") return layers.feeds[i] === "e";
  if (where === "seals") return layers.block !== null && i % layers.block === 0;
  if (where === "mixed") return layers.block !== null && i > 0;
  return false;
}

/** Numbers of the layers that hold the node. @param {string} where @param {Layers} layers @returns {number[]} */
function layersWith(where, layers) {
  return [...layers.mixers].map((_, i) => i).filter((i) => layerHas(where, layers, i));
}

/** @param {number[]} among @param {number} wanted @returns {number} */
function nearest(among, wanted) {
  return among.reduce((best, i) => (Math.abs(i - wanted) < Math.abs(best - wanted) ? i : best), among[0]);
}

/** The released layer at the same place of the block pattern as running layer `i`.
 * @param {number} i @returns {number} */
function releasedLayer(i) {
  const mine = runningLayers();
  const theirs = /** @type {Layers} */ (KS.payload.layers);
  const last = theirs.mixers.length - 1;
  if (i >= mine.mixers.length - 1) return last;
  const place = mine.block && theirs.block ? theirs.block * Math.floor(i / mine.block) + (i % mine.block) : i;
  const same = [...theirs.mixers].map((_, j) => j).filter((j) => theirs.mixers[j] === mine.mixers[i] && theirs.feeds[j] === mine.feeds[i]);
  return same.length ? nearest(same, Math.min(place, last)) : Math.min(place, last);
}

/** The layer of the priced model that the page shows, one that holds the node. @returns {number} */
function pricedLayer() {
  const among = layersWith(currentPage()?.where ?? "", KS.payload.layers);
  const wanted = releasedLayer(shownLayer());
  return among.length ? nearest(among, wanted) : wanted;
}

/** The running layer that stands for released layer `j`, among those that hold the node.
 * @param {number} j @param {string} where @returns {number} */
function runningLayer(j, where) {
  const mine = runningLayers();
  const among = layersWith(where, mine);
  if (!among.length) return 0;
  const kind = KS.payload.layers.mixers[j];
  const alike = among.filter((i) => mine.mixers[i] === kind);
  return (alike.length ? alike : among).reduce((best, i) => (Math.abs(releasedLayer(i) - j) < Math.abs(releasedLayer(best) - j) ? i : best));
}

/** Running layer of the page: the address's, or the nearest that holds the node. @returns {number} */
function shownLayer() {
  if (!KS.payload) return Math.max(0, KS.state.layer);
  const where = currentPage()?.where ?? "";
  const count = runningLayers().mixers.length;
  const among = where ? layersWith(where, runningLayers()) : [];
  if (KS.state.layer < 0) return among.length ? among[0] : 0;
  return among.length ? nearest(among, Math.min(KS.state.layer, count - 1)) : Math.min(KS.state.layer, count - 1);
}

/** A sentence when the layer on screen is not the one the address asks for. @returns {string} */
function layerNotice() {
  const asked = KS.state.layer;
  const node = currentPage();
  if (!node || !node.where) return "";
  const { mixers, name } = runningLayers();
  if (!layersWith(node.where, runningLayers()).length) return `No layer of ${name}, which runs here, has ${node.title}: its sizes are shown, and there is nothing of it to run.`;
  if (asked < 0) return "";
  if (asked >= mixers.length) return `The address says layer ${asked}; ${name} has layers 0 to ${mixers.length - 1}, so ${shownLayer()} is shown.`;
  if (shownLayer() === asked) return "";
  return `Layer ${asked} of ${name} has no ${node.title}; the nearest that has it is layer ${shownLayer()}.`;
}

/** @returns {any} the payload's entry of the node on screen, or null */
function currentNode() {
  return KS.payload?.nodes[KS.state.node] ?? null;
}

/** The instance of the node on screen: the address's, or the first. @returns {string} */
function currentPlace() {
  const node = currentNode();
  if (!node) return "";
  return node.pages[KS.state.at] ? KS.state.at : node.first;
}

/** The page of the node at its instance on screen, or null. @returns {any} */
function currentPage() {
  return currentNode()?.pages[currentPlace()] ?? null;
}
