// Counts the tokens of the prompt while one types, where every word or byte is a token, and says
// that somebody is about to run, so that the model can be loaded meanwhile.

const PIECES = /'(?:s|t|re|ve|m|ll|d)| ?\p{L}+| ?\p{N}+| ?[^\p{White_Space}\p{L}\p{N}]+|\p{White_Space}+(?!\P{White_Space})|\p{White_Space}+/gu;

/** Tokens of a text with the one that starts every text. @param {string} text @param {Set<string>} words */
export function countTokens(text, words) {
  const bytes = new TextEncoder();
  return (text.match(PIECES) ?? []).reduce((sum, piece) => sum + (words.has(piece) ? 1 : bytes.encode(piece).length), 1);
}

/** @param {{data: {limit: number, words: string[]|null}, parentElement: HTMLElement, setTriggerValue: Function}} component */
export default function ({ data, parentElement, setTriggerValue }) {
  const words = data.words && new Set(data.words);
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
    const said = document.querySelector(".kl-count");
    if (!said || !isPrompt(event)) return;
    if (!words) {
      said.textContent = "counted when it is run";
      return;
    }
    const tokens = countTokens(box.value, words), over = tokens - data.limit;
    said.textContent = `${tokens.toLocaleString("en-US")} of ${data.limit.toLocaleString("en-US")} tokens` +
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
