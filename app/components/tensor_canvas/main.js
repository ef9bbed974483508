// The library's one mount hands out what draws; each figure sets up once, and new data redraw it.

const FIGURES = { heat: heatView, depth: depthView, layers: layersView };

const styles = new CSSStyleSheet();

/** @param {{data: {css: string}}} component */
export default function library({ data }) {
  styles.replaceSync(data.css);
  const page = /** @type {any} */ (window);
  page.__kimiscopeCanvas = figure;
  window.dispatchEvent(new Event("kimiscope:canvas"));
  return () => {};
}

/** @param {{data: any, parentElement: ShadowRoot}} component */
function figure({ data, parentElement }) {
  const view = parentElement.kimiscope ?? (parentElement.kimiscope = mount(parentElement));
  view.show(data);
  return view.stop;
}

/** Whether a figure has a cell: another step may have fewer rows. @param {any} data @param {any} cell */
function holds(data, cell) {
  const panel = cell && data.panels?.[cell.p];
  return Boolean(panel) && cell.row < data.rows.labels.length && cell.column < panel.columns;
}

/** @param {ShadowRoot} parent */
function mount(parent) {
  const root = make("div", { class: "figure" });
  parent.adoptedStyleSheets = [styles];
  parent.append(root);
  const view = {
    root, data: null, redraw: () => {},
    state: { scale: "this", lock: null, hover: null, token: null, read: null, table: false },
    show(data) {
      const before = view.data;
      view.data = data;
      if (!before || before.run !== data.run || before.node !== data.node || before.layer !== data.layer) {
        view.state.lock = view.state.hover = view.state.read = null;
      }
      if (!holds(data, view.state.lock)) view.state.lock = null;
      if (!holds(data, view.state.hover)) view.state.hover = null;
      if (!before || before.token !== data.token || before.run !== data.run) view.state.token = data.token;
      root.classList.remove("stale");
      document.querySelector(".st-key-live")?.removeAttribute("data-stale");
      view.render();
    },
    render() {
      keepingFocus(root, () => {
        root.replaceChildren();
        Object.assign(root.dataset, { node: view.data.node, layer: view.data.layer, run: view.data.run });
        FIGURES[view.data.kind](view);
      });
    },
  };
  const stale = (event) => {
    const next = event.detail ?? {}, now = view.data;
    // a layer that the address does not name is the server's to choose
    const layer = new URL(location.href).searchParams.get("layer");
    const moved = (next.node && next.node !== now.node) || (next.at && now.at && next.at !== now.at) ||
      (layer !== null && Number(layer) !== (now.asked_layer ?? now.layer)) ||
      (next.phase && now.phase && next.phase !== now.phase);
    root.classList.toggle("stale", Boolean(moved));
    document.querySelector(".st-key-live")?.toggleAttribute("data-stale", Boolean(moved));
  };
  let width = 0;
  const watch = new ResizeObserver(() => {
    if (root.clientWidth === width) return;
    width = root.clientWidth;
    view.redraw();
  });
  window.addEventListener("kimiscope:node", stale);
  watch.observe(root);
  view.stop = () => {
    window.removeEventListener("kimiscope:node", stale);
    watch.disconnect();
    document.querySelector(".st-key-live")?.removeAttribute("data-stale");
    delete parent.kimiscope;
    root.remove();
  };
  return view;
}
