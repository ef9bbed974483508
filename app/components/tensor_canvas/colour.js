// The two scales: signed values blue to orange about zero, magnitudes in cividis from zero.

/** @param {Element} root @param {string} name */
const token = (root, name) => getComputedStyle(root).getPropertyValue("--" + name).trim();

/** @param {string} hex */
const channels = (hex) => [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));

const CIVIDIS = ["#00224E", "#123570", "#3B496C", "#575D6D", "#707173", "#8A8678", "#A59C74",
  "#C3B369", "#E1CC55", "#FEE838"].map(channels);

/** @param {number[]} from @param {number[]} to @param {number} share */
const between = (from, to, share) => from.map((c, i) => Math.round(c + (to[i] - c) * share));

/** @param {number} share from 0 to 1 */
function cividis(share) {
  const place = Math.max(0, Math.min(1, share)) * (CIVIDIS.length - 1);
  const stop = Math.min(CIVIDIS.length - 2, Math.floor(place));
  return between(CIVIDIS[stop], CIVIDIS[stop + 1], place - stop);
}

/** A colour for each value of a signed scale, in the colours of the page. @param {Element} root */
function diverging(root) {
  const zero = channels(token(root, "zero"));
  const ends = [channels(token(root, "neg")), channels(token(root, "pos"))];
  // below 1, so that small values stay visible
  return (share) => between(zero, ends[share < 0 ? 0 : 1], Math.min(1, Math.abs(share)) ** 0.85);
}

/** @param {number[]} rgb whether dark ink reads better on it */
const isPale = (rgb) => 0.3 * rgb[0] + 0.59 * rgb[1] + 0.11 * rgb[2] > 120;
