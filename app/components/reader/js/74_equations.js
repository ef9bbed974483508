// Equations of nodes beside rows of the live half, which names their places and cannot draw them.

/** @type {Part} */
function equationsOfRows() {
  const main = document.querySelector('[data-testid="stMain"]');
  if (!main) return null;
  const fill = () => {
    for (const slot of main.querySelectorAll("[data-equation]:empty")) {
      const { equation, at } = /** @type {HTMLElement} */ (slot).dataset;
      const node = KS.payload?.nodes[equation ?? ""];
      const page = node?.pages[at ?? ""] ?? node?.pages[node.first];
      if (!page) continue;
      const held = document.createElement("template");
      held.innerHTML = page.head;
      const drawn = held.content.querySelector(".ks-eq");
      if (drawn) slot.append(...drawn.childNodes);
    }
  };
  // Streamlit puts the rows there when they come
  const watch = new MutationObserver(fill);
  watch.observe(main, { childList: true, subtree: true });
  fill();
  return { draw: (/** @type {string} */ what) => { if (what === "payload") fill(); }, stop: () => watch.disconnect() };
}
