// A mount that brings no script of its own: the module of the mount "outline" draws it, once it is there.

/** @param {any} component */
export default function part(component) {
  const page = /** @type {any} */ (window);
  if (page.__kimiscopeReader) return page.__kimiscopeReader(component);
  let stop = () => {};
  const start = () => { stop = page.__kimiscopeReader(component); };
  window.addEventListener("kimiscope:reader", start, { once: true });
  return () => { window.removeEventListener("kimiscope:reader", start); stop(); };
}
