// Kind "flame": a tree of weights, root on top. A click on a frame fits it to the width; a search
// marks frames and says how much of the whole they are together.

import { axisOption, shown } from '../axes.js';
import { percent } from '../format.js';
import { colour, seriesLook } from '../theme.js';
import { tipLines } from '../tip.js';

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

export function flame(drawing, { width, view }) {
  const { depth, weight, names, colours } = drawing;
  const numbers = (values) => Array.from(values ?? []);
  const [name, shade] = [numbers(drawing.name), numbers(drawing.colour)];
  const from = lefts(depth, weight);
  const total = weight.reduce((sum, w, i) => sum + (depth[i] === 0 ? w : 0), 0) || 1;
  const axis = { name: `share of ${drawing.what ?? 'samples'}`, unit: 'share' };
  const amount = { name: drawing.what, unit: drawing.unit ?? '' };
  const deepest = Math.min(MOST_ROWS, depth.reduce((a, b) => Math.max(a, b), 0) + 1);
  let marked = null;
  const paints = colours.map(([, key], k) => (key ? colour(key) : seriesLook(k).colour));
  const series = colours.map(([label], k) => ({
    type: 'custom',
    name: label,
    animation: false,
    clip: true,
    itemStyle: { color: paints[k] },
    data: name.flatMap((_, i) =>
      shade[i] === k ? [[from[i] / total, (from[i] + weight[i]) / total, depth[i], i]] : [],
    ),
    encode: { x: [0, 1], y: 2 },
    renderItem: (_, api) => {
      const i = api.value(3);
      const [x1, y] = api.coord([api.value(0), api.value(2)]);
      const [x2] = api.coord([api.value(1), api.value(2)]);
      if (x2 - x1 < LEAST_PX) return null;
      const [a, b] = [Math.max(x1, 0), Math.min(x2, width)];
      const text =
        b - a > TEXT_FROM_PX ? names[name[i]].slice(0, Math.floor((b - a - 6) / LETTER_PX)) : '';
      const hit = marked?.has(name[i]);
      return {
        type: 'rect',
        shape: { x: a, y: y - ROW_PX / 2 + 0.5, width: b - a - 0.4, height: ROW_PX - 1 },
        style: {
          fill: paints[k],
          opacity: marked && !hit ? 0.25 : shadeOf(names[name[i]]),
          stroke: hit ? colour('fg') : null,
        },
        ...(text
          ? {
              textContent: {
                style: { text, fill: colour('bg'), fontSize: 11, overflow: 'truncate' },
              },
              textConfig: { position: 'insideLeft' },
            }
          : {}),
      };
    },
  }));
  return {
    option: {
      grid: [{ left: 12, top: 30, width: width - 30, height: deepest * ROW_PX }],
      xAxis: [
        axisOption(axis, {
          domain: [0, 1],
          scale: 'linear',
          view: () => view('x', 0) ?? [0, 1],
          nameGap: 26,
        }),
      ],
      yAxis: [{ type: 'value', inverse: true, min: -0.5, max: deepest - 0.5, show: false }],
      legend: [
        {
          data: colours.map(([label]) => label),
          top: 0,
          left: 0,
          textStyle: { color: colour('fg') },
        },
      ],
      series,
      tooltip: {
        trigger: 'item',
        formatter: ({ data: [, , , i] }) =>
          tipLines([
            [percent(weight[i] / total), names[name[i]]],
            [shown(amount, weight[i]), drawing.what ?? 'samples'],
            ['', colours[shade[i]][0]],
          ]),
      },
    },
    height: 30 + deepest * ROW_PX + 46,
    zoomY: false,
    states: [
      {
        title: '',
        x: [0, 1],
        y: [0, deepest],
        series: colours.map(([label], k) => ({
          label,
          points: shade.filter((s) => s === k).length,
        })),
      },
    ],
    fit: ({ data }) => [data[0], data[1]],
    /** Marks frames by a part of their name; frames within marked ones count once. */
    search: (text) => {
      const wanted = text.trim().toLowerCase();
      marked = wanted
        ? new Set(names.flatMap((one, i) => (one.toLowerCase().includes(wanted) ? [i] : [])))
        : null;
      if (!marked) return '';
      let [sum, frames, below] = [0, 0, Infinity];
      name.forEach((one, i) => {
        if (depth[i] <= below) below = Infinity;
        if (!marked.has(one)) return;
        frames += 1;
        if (below === Infinity) {
          sum += weight[i];
          below = depth[i];
        }
      });
      return `${frames} frames, ${percent(sum / total)}`;
    },
    table: () => ({
      columns: [
        { label: 'depth', numeric: true },
        { label: 'name' },
        { label: drawing.what ?? 'samples', numeric: true },
        { label: 'share', numeric: true },
        { label: 'kind' },
      ],
      rows: () =>
        name.map((one, i) => [
          { value: depth[i], text: String(depth[i]) },
          names[one],
          { value: weight[i], text: shown(amount, weight[i]) },
          { value: weight[i] / total, text: percent(weight[i] / total) },
          colours[shade[i]][0],
        ]),
      n: name.length,
    }),
  };
}
