// Counts the tokens of the prompt while one types, where every byte is a token, and says that
// somebody is about to run, so that the model can be loaded meanwhile.

/** @param {{data: {limit: number, by_bytes: boolean}, parentElement: HTMLElement, setTriggerValue: Function}} component */
export default function ({ data, parentElement, setTriggerValue }) {
  const isPrompt = (/** @type {Event} */ event) => /** @type {Element} */ (event.target).closest?.(".st-key-prompt");
  const enter = (/** @type {Event} */ event) => {
    if (!isPrompt(event)) return;
    document.removeEventListener("focusin", enter);
    if (parentElement.dataset.told) return;
    parentElement.dataset.told = "yes";
    setTriggerValue("entered", true);
  };
  const count = (/** @type {Event} */ event) => {
    const box = /** @type {HTMLTextAreaElement} */ (event.target);
    const words = document.querySelector(".kl-count");
    if (!data.by_bytes || !words || !isPrompt(event)) return;
    // one more for the token that starts every text
    const tokens = new TextEncoder().encode(box.value).length + 1, over = tokens - data.limit;
    words.textContent = `${tokens.toLocaleString("en-US")} of ${data.limit.toLocaleString("en-US")} tokens` +
      (over > 0 ? `, ${over.toLocaleString("en-US")} too many` : "");
  };
  parentElement.stopCounting?.();
  document.addEventListener("input", count);
  document.addEventListener("focusin", enter);
  parentElement.stopCounting = () => {
    document.removeEventListener("input", count);
    document.removeEventListener("focusin", enter);
  };
  return parentElement.stopCounting;
}
