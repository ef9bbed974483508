// Addresses that lead on: an id that has moved, a part that only another model has.

/** Replace an address whose node is not here by the one that took its place, and keep what to say. */
function leadOn() {
  const { payload, state } = KS;
  if (!payload || state.view !== "node" || payload.nodes[state.node] || payload.model !== modelName()) return;
  const asked = state.node;
  const moved = payload.moved[asked];
  const other = payload.elsewhere[asked];
  const to = moved ?? other?.near;
  if (!to) return;
  const text = moved
    ? `The address says node ${asked}; that part now stands at ${to.node}, and is shown.`
    : `${payload.name} has no “${other.title}”; ${other.models.join(" and ")} ${other.models.length > 1 ? "have" : "has"} it. What comes nearest is shown.`;
  history.replaceState(history.state, "", addressWith({ node: to.node, at: to.at, head: null, token: null }));
  state.node = to.node;
  state.at = to.at;
  KS.led = { node: to.node, model: payload.model, text };
  tellStreamlit();
}

/** What to say of the page on screen, if an address led there. @returns {string[]} */
function ledNotice() {
  const { led, state, payload } = KS;
  return led && led.node === state.node && led.model === payload?.model ? [led.text] : [];
}

/** Payloads that have come, by model: going back to one needs no message. @type {Map<string, {hash: string, payload: any}>} */
const PAYLOADS = (/** @type {any} */ (window)).__kimiscopePayloads ??= new Map();

/** Take a payload for the one on screen. @param {string} hash @param {any} payload */
function usePayload(hash, payload) {
  PAYLOADS.set(payload.model, { hash, payload });
  // a late message about the model that was left must not bring it back
  if (payload.model !== KS.state.model && PAYLOADS.has(KS.state.model)) return;
  KS.hash = hash;
  KS.payload = payload;
  readAddress();
  tellMounts("payload");
  announce("payload", { model: payload.model, hash });
  showPage(false);
}
