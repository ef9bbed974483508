// Pages of kernels: they come as one message when the first of them is opened, and stay.

/** By model. @type {Map<string, {hash: string, pages: any}>} */
const KERNELS = (/** @type {any} */ (window)).__kimiscopeKernels ??= new Map();

/** @param {string} hash @param {Uint8Array} zipped */
async function takeKernels(hash, zipped) {
  if ([...KERNELS.values()].some((held) => held.hash === hash)) return;
  const pages = await unzipped(zipped);
  KERNELS.set(pages.model, { hash, pages });
  tellMounts("page");
}

/** What of the address and of what came tells one kernel's page from another. @returns {string} */
function kernelKey() {
  return KS.state.view === "kernel" ? `${KS.state.kernel}/${KERNELS.get(KS.payload?.model)?.hash ?? ""}` : "";
}

/** @returns {{html: string, title: string, parts: Part[]}} */
function kernelPage() {
  const held = KERNELS.get(KS.payload.model);
  const notices = '<div data-part="notices"></div>';
  if (!held) return { html: `${notices}<h1>Kernels</h1><p class="ks-soft ks-loading" role="status">Reading the kernels …</p>`, title: "Kernels", parts: [] };
  const page = held.pages.pages[KS.state.kernel];
  if (page) return { html: `${notices}${page.html}`, title: page.title, parts: page.load ? [roofline, sourceLines] : [] };
  const asked = KS.state.kernel ? `<p class="ks-notice" role="status">The address says kernel “${escapeText(KS.state.kernel.slice(0, 40))}”; there is none of that name, and all are listed.</p>` : "";
  return { html: `${notices}${asked}${held.pages.index}`, title: "Kernels", parts: [] };
}

/** Links of terms to lines: the fold opens, and the line is marked until another one is.
 * @type {Part} */
function sourceLines(root) {
  const go = (/** @type {Event} */ event) => {
    const link = event.target instanceof Element ? /** @type {HTMLElement|null} */ (event.target.closest("a[data-line]")) : null;
    if (!link) return;
    event.preventDefault();
    const [file, number] = (link.dataset.line ?? "").split(":");
    const line = root.querySelector(`[data-file="${CSS.escape(file)}"] [data-n="${CSS.escape(number)}"]`);
    if (!line) return;
    for (const other of root.querySelectorAll(".ks-src .hit")) other.classList.remove("hit");
    line.classList.add("hit");
    const fold = line.closest("details");
    if (fold) fold.open = true;
    line.scrollIntoView({ block: "center" });
  };
  root.addEventListener("click", go);
  return { draw: () => {}, stop: () => root.removeEventListener("click", go) };
}
