// The shapes of what Python sends.

/** @typedef {{title: string, short: string, word: string, stream: string, start: number, strong: boolean}} Group */
/** @typedef {{symbol: string, title: string, columns: number, values: string, signed: boolean, whole: boolean, clips: boolean,
 *   bounds: {this: number, all?: number}, scale_word: string, constant: number|null, causal_from: number|null, first_column: number, column_step: number,
 *   column_labels: string[]|null, column_word: string, groups: Group[], statistics: Object<string, number>}} Panel */
/** @typedef {{kind: string, taps: string[], facts: string[]}} Provenance */
/** @typedef {{labels: string[], ids: number[], first: number, new_from: number|null}} Tokens */
/** @typedef {{kind: "heat", signs: string[]|null, node: string, layer: number, run: string, name: string, note: string, widest: number, tallest: number, token: number|null,
 *   ask_token: boolean, rows: {axis: string, word: string, is_position: boolean, labels: string[], ids: number[]|null, first: number, new_from: number|null},
 *   tools: {heads: number, head: number|null, tokens: Tokens|null, token: number|null}, panels: Panel[], provenance: Provenance[]}} Heat */
/** @typedef {{kind: "depth", node: string, layer: number, run: string, name: string, note: string, source: string, token: number, read: number, tokens: Tokens,
 *   sources: {title: string, symbol: string, index: string}[], reads: {title: string, place: string, label: string, centred: boolean, seals: boolean, has: boolean[]}[],
 *   weights: string, scores: string, provenance: Provenance[]}} Depth */
/** @typedef {{kind: "layers", node: string, layer: number, run: string, title: string, values: number[], mixers: string[], seals: number[], provenance: Provenance[]}} LayerSeries */
/** @typedef {{root: HTMLElement, data: any, state: any, redraw: () => void, render: () => void}} View */
