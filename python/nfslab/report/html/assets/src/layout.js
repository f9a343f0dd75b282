// Where panels go: small multiples in rows and columns with one shared scale; y labels on the
// first column only, x labels on the last panel of each column.

/** Room for tick labels such as "1,000 MiB/s" and the axis' name. */
export const LEFT = 92;
export const RIGHT = 24;
const GAP_X = 26;
const TITLE = 30;
const GAP_Y = 26;
const BOTTOM = 44;

/** Rectangles for `n` panels: [{rect, first: in first column, last: of its column}]. */
export function facets(n, width, { height = 230, most = 3, left = LEFT, titled = true } = {}) {
  const wanted = n === 1 ? 1 : n === 2 || n === 4 ? 2 : 3;
  const fit = Math.max(1, Math.floor((width - left) / 255));
  const columns = Math.min(most, wanted, fit, n);
  const rows = Math.ceil(n / columns);
  const w = (width - left - RIGHT - GAP_X * (columns - 1)) / columns;
  const h = columns === 1 && n === 1 ? height * 1.35 : height;
  const top = titled ? TITLE : 10;
  const places = [];
  for (let i = 0; i < n; i += 1) {
    const [row, column] = [Math.floor(i / columns), i % columns];
    places.push({
      rect: {
        x: left + column * (w + GAP_X), y: top + row * (h + top + GAP_Y), w, h,
      },
      first: column === 0,
      last: i + columns >= n,
    });
  }
  return { places, height: rows * (h + top + GAP_Y) - GAP_Y + BOTTOM };
}

/** Panels on top of each other that share one x axis (evidence on the run's time). */
export function stacked(heights, x, w, { gap = 34, top = 26 } = {}) {
  let y = top;
  const places = heights.map((h, i) => {
    const rect = { x, y, w, h };
    y += h + gap;
    return { rect, last: i === heights.length - 1 };
  });
  return { places, height: y - gap + BOTTOM };
}
