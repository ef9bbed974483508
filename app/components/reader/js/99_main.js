// The module's one export: Streamlit calls it for every mount, and again whenever its data changes.

/** @type {Record<string, (root: HTMLElement) => {draw: (what: string) => void, stop: () => void}>} */
const MOUNTS = {
  outline: mountOutline,
  tree: (root) => ({ draw: mountTree(root), stop: () => {} }),
  bar: mountBar,
  above: mountAbove,
  below: mountBelow,
  // brings pages, and draws none of them
  kernels: () => ({ draw: () => {}, stop: () => {} }),
};

/** Mounts set up so far, by the element that Streamlit gave. @type {WeakMap<Element, {stop: () => void, take: (data: any) => void}>} */
const MOUNTED = (/** @type {any} */ (window)).__kimiscopeMounted ??= new WeakMap();
let pageListeners = 0;
let stopListening = () => {};

/** Bytes begin with one line, the mount and a hash of what follows. @param {Uint8Array} bytes */
function readHeader(bytes) {
  const cut = bytes.indexOf(10);
  const [mount, hash] = new TextDecoder().decode(bytes.subarray(0, cut)).split(" ");
  return { mount, hash, body: bytes.subarray(cut + 1) };
}

/** The payload arrives as gzip; an unchanged one is not read again.
 * @param {string} hash @param {Uint8Array} zipped */
async function takePayload(hash, zipped) {
  if (hash === KS.hash) return;
  usePayload(hash, await unzipped(zipped));
}

/** One write, and read without a turn of this thread for every piece: it is busy when a page opens.
 * @param {Uint8Array} zipped @returns {Promise<any>} */
async function unzipped(zipped) {
  const unzip = new DecompressionStream("gzip");
  const writer = unzip.writable.getWriter();
  writer.write(/** @type {any} */ (zipped));
  writer.close();
  return new Response(unzip.readable).json();
}

/** The font of the equations; without it they are set in a font of the system. @param {Uint8Array} bytes */
async function takeFont(bytes) {
  if ([...document.fonts].some((face) => face.family.replaceAll('"', "") === "Kimiscope Math")) return;
  const face = new FontFace("Kimiscope Math", /** @type {any} */ (bytes));
  document.fonts.add(await face.load());
}

/** Every mount brings the same style sheet; one of them is enough. */
function keepOneStyle() {
  const styles = /** @type {HTMLStyleElement[]} */ ([...document.querySelectorAll("style[data-kimiscope]")]);
  styles.forEach((style, i) => { style.media = i ? "not all" : ""; });
}

/** @param {{data: any, parentElement: HTMLElement}} component */
export default function reader({ data, parentElement }) {
  const known = MOUNTED.get(parentElement);
  if (known) { known.take(data); return known.stop; }
  const root = /** @type {HTMLElement} */ (parentElement.querySelector(".ks"));
  const bytesOf = (/** @type {any} */ given) => (given instanceof Uint8Array ? given : given instanceof ArrayBuffer ? new Uint8Array(given) : null);
  const first = bytesOf(data);
  const name = first ? readHeader(first).mount : data.mount;
  const take = (/** @type {any} */ given) => {
    const bytes = bytesOf(given);
    if (!bytes) return;
    const { hash, body } = readHeader(bytes);
    if (name === "outline") takePayload(hash, body);
    else if (name === "above") takeComparison(hash, body);
    else if (name === "kernels") takeKernels(hash, body);
    else takeFont(body);
  };
  root.classList.add(`ks-${name}`);
  // Streamlit greys what a rerun has not confirmed yet; our parts draw by themselves
  root.closest(".stElementContainer")?.classList.add("ks-container");
  parentElement.querySelector("style")?.setAttribute("data-kimiscope", "");
  keepOneStyle();
  root.setAttribute("data-mount", name);
  if (!pageListeners) { KS.run ??= /** @type {any} */ (window).__kimiscopeRun ?? null; readAddress(); stopListening = listenToPage(); }
  pageListeners += 1;
  const mount = MOUNTS[name](root);
  const draws = KS.mounts.get(name) ?? new Set();
  KS.mounts.set(name, draws.add(mount.draw));
  mount.draw("payload");
  if (name === "tree") tellMounts("page");
  let stopped = false;
  const stop = () => {
    if (stopped) return;
    stopped = true;
    MOUNTED.delete(parentElement);
    draws.delete(mount.draw);
    if (!draws.size) KS.mounts.delete(name);
    mount.stop();
    parentElement.querySelector("style")?.removeAttribute("data-kimiscope");
    keepOneStyle();
    pageListeners -= 1;
    if (!pageListeners) stopListening();
  };
  MOUNTED.set(parentElement, { stop, take });
  take(data);
  return stop;
}

// the other mounts have no script of their own and wait for this one
(/** @type {any} */ (window)).__kimiscopeReader = reader;
window.dispatchEvent(new Event("kimiscope:reader"));
