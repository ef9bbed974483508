// A figure's mount brings no script of its own: the library draws it, once it is there.

/** @param {any} component */
export default function (component) {
  const page = /** @type {any} */ (window);
  if (page.__kimiscopeCanvas) return page.__kimiscopeCanvas(component);
  let stop = () => {};
  const start = () => { stop = page.__kimiscopeCanvas(component); };
  window.addEventListener("kimiscope:canvas", start, { once: true });
  return () => {
    window.removeEventListener("kimiscope:canvas", start);
    stop();
  };
}
