// The bar on top of every page: phase, batch, the context rule, the exact context.

/** @param {HTMLElement} root */
function mountBar(root) {
  root.innerHTML = `
    <div class="ks-mtop"><a href="?view=overview" data-view="overview">Kimiscope</a><span><span class="ks-soft" data-part="model"></span><button type="button" data-part="menu" aria-label="Open outline, prompt and search"><svg width="20" height="14" aria-hidden="true"><path d="M0 1h20M0 7h20M0 13h12" stroke="var(--ink)" stroke-width="1.6"/></svg></button></span></div>
    <div class="ks-barrow">
    <div class="ks-field"><span>Phase</span><div class="ks-seg" data-handle="phase" role="group" aria-label="Phase"><button type="button" data-phase="prefill">Prefill</button><button type="button" data-phase="decode">Decode</button></div></div>
    <div class="ks-field"><span>Batch</span><div class="ks-step" data-handle="batch"><button type="button" data-batch="-1" aria-label="One sequence less">−</button><output aria-label="Batch" aria-live="polite">1</output><button type="button" data-batch="1" aria-label="One sequence more">+</button></div></div>
    <div class="ks-rule"><svg aria-hidden="true"></svg><input data-handle="context" type="range" min="0" max="2000" step="1" value="1200" aria-label="Context length, logarithmic"></div>
    <div class="ks-field"><span>Context, positions</span><input class="ks-exact" data-handle="context-exact" inputmode="numeric" autocomplete="off" aria-label="Context, exact number of positions"></div></div>`;
  const slide = /** @type {HTMLInputElement} */ (root.querySelector("[data-handle=context]"));
  const exact = /** @type {HTMLInputElement} */ (root.querySelector(".ks-exact"));
  const box = /** @type {HTMLElement} */ (root.querySelector(".ks-rule"));
  const svg = /** @type {SVGElement} */ (box.querySelector("svg"));
  const range = () => Math.round(STEPS_PER_DOUBLING * Math.log2(longestContext()));
  let wide = 0;
  const redraw = () => { wide = box.clientWidth; if (wide) { drawRule(svg, wide); placeHand(svg, wide); } };
  const numbers = () => {
    if (wide) placeHand(svg, wide);
    if (document.activeElement !== slide || Math.abs(Number(slide.value) - STEPS_PER_DOUBLING * Math.log2(KS.state.context)) > 1) slide.value = String(STEPS_PER_DOUBLING * Math.log2(KS.state.context));
    if (document.activeElement !== exact) exact.value = showInt(KS.state.context);
    slide.setAttribute("aria-valuetext", `${showInt(KS.state.context)} positions`);
    const out = root.querySelector("output");
    if (out && out.textContent !== showInt(KS.state.batch)) out.textContent = showInt(KS.state.batch);
    for (const b of root.querySelectorAll("[data-phase]")) b.setAttribute("aria-pressed", String(/** @type {HTMLElement} */ (b).dataset.phase === KS.state.phase));
  };
  slide.addEventListener("input", () => moveContext(2 ** (Number(slide.value) / STEPS_PER_DOUBLING)));
  slide.addEventListener("change", keepContext);
  // the input itself is transparent, so its ring is drawn around the rule
  slide.addEventListener("focus", () => box.classList.toggle("ks-focus", slide.matches(":focus-visible")));
  slide.addEventListener("blur", () => box.classList.remove("ks-focus"));
  slide.addEventListener("keydown", (event) => {
    const next = contextAfter(event.key, KS.state.context);
    if (next === undefined) return;
    event.preventDefault();
    moveContext(next);
    keepContextSoon();
  });
  bindExact(exact);
  bindBatchAndPhase(root);
  root.querySelector("[data-part=menu]")?.addEventListener("click", () => {
    // later, as this click, outside the drawer, would close it again
    setTimeout(() => /** @type {HTMLElement|null} */ (document.querySelector('[data-testid="stExpandSidebarButton"]'))?.click(), 0);
  });
  const watch = new ResizeObserver(redraw);
  watch.observe(box);
  const draw = (/** @type {string} */ what) => {
    if (what === "payload" || (what !== "numbers" && slide.max !== String(range()))) { slide.max = String(range()); redraw(); }
    const model = root.querySelector("[data-part=model]");
    if (model) model.textContent = KS.payload?.name ?? "";
    numbers();
  };
  return { draw, stop: () => watch.disconnect() };
}

let keepTimer = 0;

function keepContextSoon() {
  clearTimeout(keepTimer);
  keepTimer = window.setTimeout(keepContext, 250);
}

/** @param {HTMLInputElement} exact */
function bindExact(exact) {
  const take = () => {
    const digits = exact.value.replace(/[^0-9.eE]/g, "");
    const asked = Number(digits);
    if (digits && Number.isFinite(asked) && asked > 0) {
      moveContext(asked);
      keepContext();
      sayContext(asked);
    }
    exact.value = showInt(KS.state.context);
  };
  exact.addEventListener("change", take);
  exact.addEventListener("keydown", (event) => {
    // the browser's own change event takes the value
    if (event.key === "Enter") setTimeout(() => exact.select());
    if (event.key === "Escape") { exact.value = showInt(KS.state.context); exact.blur(); event.stopPropagation(); }
    if (event.key === "ArrowUp" || event.key === "ArrowDown") {
      event.preventDefault();
      moveContext(KS.state.context + (event.key === "ArrowUp" ? 1 : -1));
      exact.value = showInt(KS.state.context);
      keepContextSoon();
    }
  });
}

/** Say it when the asked context does not exist. @param {number} asked */
function sayContext(asked) {
  const most = longestContext();
  KS.notices = asked > most ? [`${showInt(asked)} positions were asked for; ${KS.payload?.name ?? "the model"} is configured for ${showInt(most)}, which are shown.`] : [];
  tellMounts("notices");
}

/** @param {HTMLElement} root */
function bindBatchAndPhase(root) {
  root.addEventListener("click", (event) => {
    const button = /** @type {HTMLElement|null} */ (/** @type {Element} */ (event.target).closest("[data-batch],[data-phase]"));
    if (!button) return;
    if (button.dataset.batch) {
      KS.state.batch = Math.max(1, Math.min(BATCH_LIMIT, KS.state.batch + Number(button.dataset.batch)));
      showNumbers();
      keepContextSoon();
    } else if (button.dataset.phase && button.dataset.phase !== KS.state.phase) {
      KS.state.phase = button.dataset.phase === "prefill" ? "prefill" : "decode";
      showNumbers();
      setDetail({ phase: KS.state.phase === "decode" ? null : "prefill", step: null }, true);
    }
  });
}
