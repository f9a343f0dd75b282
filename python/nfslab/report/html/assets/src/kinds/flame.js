// Kind "flame": a tree of weights, root on top. A click on a frame fits it to the width; a search
// marks frames and says how much of the whole they are together.

import { shown } from '../axes.js';
import { box, Chart } from '../chart.js';
import { percent } from '../format.js';
import { colour, seriesLook } from '../theme.js';

const ROW_PX = 18;
const LEAST_PX = 0.5; // narrower frames are not painted
const TEXT_FROM_PX = 28;
const LETTER_PX = 6;
const MOST_ROWS = 80;
const SHADES = 5;

/** Each frame's left end; children lie side by side from the left end of their parent. */
function lefts(depth, weight) {
  const next = [0];
  return weight.map((wide, i) => {
    const d = depth[i];
    const from = next[d] ?? 0;
    next[d] = from + wide;
    next[d + 1] = from;
    return from;
  });
}

function shadeOf(name) {
  let hash = 7;
  for (let i = 0; i < name.length; i += 1) hash = (hash * 31 + name.charCodeAt(i)) >>> 0;
  return 0.62 + 0.38 * ((hash % SHADES) / (SHADES - 1));
}

export function flame(drawing, width, switched) {
  const { depth, weight, colours, what = 'samples' } = drawing;
  const chart = new Chart(width, switched);
  const kind = Array.from(drawing.colour);
  const names = Array.from(drawing.name, (n) => drawing.names[n]);
  const from = lefts(depth, weight);
  const total = weight.reduce((sum, w, i) => sum + (depth[i] === 0 ? w : 0), 0) || 1;
  const share = (value) => percent(value / total);
  const amount = (value) => shown({ unit: drawing.unit ?? '' }, value);
  const deepest = Math.min(MOST_ROWS, depth.reduce((a, b) => Math.max(a, b), 0) + 1);
  let hits = null; // of a search, by frame
  chart.panel(
    { left: 12, top: 30, width: width - 30, height: deepest * ROW_PX },
    [{ name: `share of ${what}`, unit: 'share', low: 0, high: 1 }, { values: [], nameGap: 26 }],
    [{ low: -0.5, high: deepest - 0.5 }, { values: [], inverse: true, show: false }],
  );
  const frame = (api, paint) => {
    const i = api.value(3);
    const [x1, y] = api.coord([api.value(0), api.value(2)]);
    const [x2] = api.coord([api.value(1), api.value(2)]);
    if (x2 - x1 < LEAST_PX) return null;
    const [a, b] = [Math.max(x1, 0), Math.min(x2, width)];
    const made = box(a, y - ROW_PX / 2 + 0.5, b - a - 0.4, ROW_PX - 1, {
      fill: paint,
      opacity: hits && !hits[i] ? 0.25 : shadeOf(names[i]),
      stroke: hits?.[i] ? colour('fg') : null,
    });
    if (b - a <= TEXT_FROM_PX) return made;
    const text = names[i].slice(0, Math.floor((b - a - 6) / LETTER_PX));
    const style = { text, fill: colour('bg'), fontSize: 11, overflow: 'truncate' };
    return { ...made, textContent: { style }, textConfig: { position: 'insideLeft' } };
  };
  colours.forEach(([label, key], k) => {
    const paint = seriesLook(k, key).colour;
    const data = names.flatMap((_, i) =>
      kind[i] === k ? [[from[i] / total, (from[i] + weight[i]) / total, depth[i], i]] : [],
    );
    const series = {
      type: 'custom',
      name: label,
      itemStyle: { color: paint },
      data,
      encode: { x: [0, 1], y: 2 },
      renderItem: (_, api) => frame(api, paint),
    };
    chart.add(series, (_, shade, [, , , i]) => [
      [share(weight[i]), names[i]],
      [amount(weight[i]), what],
      ['', label],
    ]);
    chart.drew(label, data.length);
  });
  chart.legend(colours.map(([label]) => label));
  chart.fit = ({ data: [low, high] }) => [low, high];
  /** Marks frames by a part of their name; frames within marked ones count once. */
  chart.search = (text) => {
    const wanted = text.trim().toLowerCase();
    hits = wanted ? names.map((name) => name.toLowerCase().includes(wanted)) : null;
    if (!hits) return '';
    let [sum, frames, within] = [0, 0, Infinity];
    hits.forEach((hit, i) => {
      if (depth[i] <= within) within = Infinity;
      if (!hit) return;
      frames += 1;
      if (within === Infinity) {
        sum += weight[i];
        within = depth[i];
      }
    });
    return `${frames} frames, ${share(sum)}`;
  };
  return chart.table([...names.keys()], [
    ['depth', (i) => depth[i], String],
    ['name', (i) => names[i]],
    [what, (i) => weight[i], amount],
    ['share', (i) => weight[i] / total, (v) => percent(v)],
    ['kind', (i) => colours[kind[i]][0]],
  ]);
}
