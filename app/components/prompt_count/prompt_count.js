// Counts the tokens of the prompt while one types, where every byte is a token.

/** @param {{data: {limit: number, by_bytes: boolean}, parentElement: HTMLElement}} component */
export default function ({ data, parentElement }) {
  const count = (/** @type {Event} */ event) => {
    const box = /** @type {HTMLTextAreaElement} */ (event.target);
    const words = document.querySelector(".kl-count");
    if (!data.by_bytes || !words || !box.closest?.(".st-key-prompt")) return;
    // one more for the token that starts every text
    const tokens = new TextEncoder().encode(box.value).length + 1, over = tokens - data.limit;
    words.textContent = `${tokens.toLocaleString("en-US")} of ${data.limit.toLocaleString("en-US")} tokens` +
      (over > 0 ? `, ${over.toLocaleString("en-US")} too many` : "");
  };
  parentElement.stopCounting?.();
  document.addEventListener("input", count);
  parentElement.stopCounting = () => document.removeEventListener("input", count);
  return parentElement.stopCounting;
}
