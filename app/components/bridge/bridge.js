// Hands the server's news to the page: a window event for the run, the address for what widgets chose.

/** Last news by mount, so that the same news is told once. @type {WeakMap<Element, {run: string, url: string}>} */
const told = new WeakMap();

/** @param {Record<string, string|number|null>} url */
function writeAddress(url) {
  const asked = new URLSearchParams(location.search);
  for (const [name, value] of Object.entries(url)) {
    if (value === null || value === "") asked.delete(name);
    else asked.set(name, String(value));
  }
  const query = asked.toString().replaceAll("%2F", "/");
  const address = location.pathname + (query ? `?${query}` : "");
  if (address === location.pathname + location.search) return;
  // another page is a step of its own, a detail is not
  const page = new URLSearchParams(location.search).get("node");
  if (page !== asked.get("node")) history.pushState({}, "", address);
  else history.replaceState(history.state, "", address);
  window.dispatchEvent(new CustomEvent("kimiscope:address", { detail: url }));
  // Streamlit keeps its own copy of the address, and a step back must be a change of that copy;
  // the id of a finished run changes nothing on the page
  if (Object.keys(url).some((name) => name !== "run")) {
    window.dispatchEvent(new PopStateEvent("popstate", { state: history.state }));
  }
}

/** @param {{data: {run: any, url: any}|null, parentElement: HTMLElement}} component */
export default function bridge({ data, parentElement }) {
  const last = told.get(parentElement) ?? { run: "", url: "" };
  const run = JSON.stringify(data?.run ?? null);
  const url = JSON.stringify(data?.url ?? null);
  told.set(parentElement, { run, url });
  if (data?.url && url !== last.url) writeAddress(data.url);
  if (run !== last.run && (last.run || run !== "null")) {
    /** @type {any} */ (window).__kimiscopeRun = data?.run ?? null;
    window.dispatchEvent(new CustomEvent("kimiscope:run", { detail: data?.run ?? null }));
  }
  return () => {};
}
