// Small pieces of the page: elements, segments, token strip, provenance.

/** @param {string} tag @param {Object<string, any>} [attributes] @param {...(Node|string)} children */
function make(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

/** Draws anew what may hold the focus, and gives it to the part in the same place, so that keys go on from there. @param {HTMLElement} root @param {() => void} drawing */
function keepingFocus(root, drawing) {
  const all = () => /** @type {HTMLElement[]} */ ([...root.querySelectorAll("button, summary, [tabindex]")]);
  const active = () => /** @type {ShadowRoot} */ (root.getRootNode()).activeElement;
  const held = /** @type {HTMLElement|null} */ (active()), place = held ? all().indexOf(held) : -1;
  drawing();
  const next = place < 0 ? undefined : all()[place];
  if (next && next.tagName === held?.tagName && active() !== next) next.focus({ preventScroll: true });
}

const SVG = "http://www.w3.org/2000/svg";

/** @param {string} tag @param {Object<string, any>} attributes @param {...(Node|string)} children */
function draw(tag, attributes, ...children) {
  const node = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children);
  return node;
}

/** One of a few, chosen by a row of buttons. @param {string} label @param {[string, string][]} options */
function segment(label, options, chosen, pick) {
  const buttons = options.map(([value, text]) => make("button", {
    type: "button", "aria-pressed": String(value === chosen), onclick: () => pick(value),
  }, text));
  return make("div", { class: "field" }, label,
    make("div", { class: "segment", role: "group", "aria-label": label }, ...buttons));
}

/** Cut in the middle, where names differ least. @param {string} text @param {number} longest */
const cut = (text, longest) => text.length <= longest ? text
  : text.slice(0, Math.ceil((longest - 1) / 2)) + "…" + text.slice(text.length - Math.floor((longest - 1) / 2));

/** All tokens in a row, the chosen one in ink. @param {Tokens} tokens */
function tokenStrip(tokens, chosen, pick) {
  const buttons = tokens.labels.map((text, i) => {
    const place = tokens.first + i;
    const fresh = tokens.new_from !== null && place >= tokens.new_from;
    return make("button", {
      type: "button", class: "token" + (fresh ? " new" : ""), "aria-pressed": String(place === chosen),
      title: `position ${place}, id ${tokens.ids[i]}`, "aria-label": `position ${place}, ${text}`,
      onclick: () => pick(place),
    }, cut(text, 16));
  });
  return make("div", { class: "field strip" }, make("span", {}, "Token"), make("div", {}, ...buttons));
}

/** Where the values come from: a word, then tap, step, dtype, device, path. @param {Provenance[]} rows */
function provenance(rows, extra) {
  const line = make("div", { class: "provenance" });
  for (const row of rows) {
    line.append(make("span", { class: "mark " + row.kind.replace(" ", "-") }, row.kind));
    for (const tap of row.taps) line.append(make("code", {}, tap));
    for (const fact of row.facts) line.append(make("span", {}, fact));
  }
  for (const fact of extra) line.append(make("span", {}, fact));
  return line;
}

/** Writes one detail into the address; the page is asked for anew only where it needs other values. */
function address(name, value, ask) {
  const url = new URL(location.href);
  url.searchParams.set(name, String(value));
  history.replaceState(history.state, "", url.pathname + "?" + url.searchParams.toString().replaceAll("%2F", "/"));
  dispatchEvent(new CustomEvent("kimiscope:address", { detail: { [name]: value } }));
  if (ask) dispatchEvent(new PopStateEvent("popstate"));
}
