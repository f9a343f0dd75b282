// Figure: each comparison as a ratio to its baseline, with its interval and its words.

import { select } from '../dom.js';
import { number } from '../format.js';
import { log, ticks } from '../scales.js';
import { colour } from '../theme.js';

const ROW_PX = (rows) => (rows > 40 ? 20 : 28);
const LEAST_PX = 90;

const WORD_PX = 7; // a character of the words beside a row, at most
const WORDS_MOST = 0.4; // of the width

const ratioText = (r) => (r === null ? '–' : `${number(r, 3)} ×`);
const pText = (p) => (p === null || p === undefined ? '–'
  : p < 1e-4 ? `${p.toExponential(0)}` : number(p, 2));

const COLOURS = { good: 'good', bad: 'bad', changed: 'c1' };

export function ratioFigure(model) {
  const names = model.metrics.filter((m) => model.comparisons.rows[m.name]?.length);
  const state = { metric: (names.find((m) => m.primary) ?? names[0]).name, axis: '' };
  const all = () => model.comparisons.rows[state.metric];
  const axes = () => model.comparisons.axes.filter(([name]) => all().some((r) => r.axis === name));
  const axis = () => (axes().some(([name]) => name === state.axis) ? state.axis : axes()[0][0]);
  const rows = () => all().filter((row) => row.axis === axis());
  const metric = () => model.metric(state.metric);

  const wordColour = (row) => colour(COLOURS[row.sense] ?? 'muted');
  const shown = (row) => ['good', 'bad', 'changed'].includes(row.sense);

  function scene(width, viewport) {
    const list = rows();
    const left = Math.min(340, Math.max(120, width * 0.32));
    const words = list.map((row) => `${ratioText(row.ratio)}  ${row.word}`);
    const longest = Math.max(...words.map((text) => text.length)) * WORD_PX + 24;
    const right = width > 640 ? Math.min(longest, width * WORDS_MOST) : 18;
    const tall = Math.max(LEAST_PX, list.length * ROW_PX(list.length));
    const rect = { x: left, y: 30, w: width - left - right, h: tall };
    const at = (i) => list.length - i;
    const drawn = list.map((row, i) => [row, i]).filter(([row]) => row.ratio > 0);
    const counts = {
      total: list.length, what: 'comparisons',
      inView: drawn.filter(([row, i]) => viewport.contains(log.to(row.ratio), at(i))).length,
    };
    const layers = [
      { kind: 'rules', items: [{ at: 0, label: '' }], colour: colour('fg'), dash: [1, 0] },
    ];
    for (const [row, i] of drawn) {
      const shade = wordColour(row);
      if (row.low > 0) {
        layers.push({
          kind: 'intervals', across: true, colour: shade, width: 2,
          items: [{ at: at(i), low: log.to(row.low), high: log.to(row.high) }],
        });
      }
      layers.push({
        kind: 'dots', points: [[log.to(row.ratio), at(i)]], colour: shade, size: 9, z: 6,
        shape: shown(row) ? 'rect' : 'circle', hollow: !shown(row),
      });
    }
    if (right > 100) {
      layers.push({
        kind: 'labels', dx: 12, size: 12, items: list.map((row, i) => ({
          x: viewport.x[1], y: at(i), colour: wordColour(row),
          text: words[i],
        })),
      });
    }
    const m = metric();
    return {
      width, height: tall + 82, counts, legend: [],
      panels: [{
        rect, layers, titleRise: 20,
        title: m.better ? `${m.better === 'higher' ? 'right' : 'left'} of 1 is better` : '',
        x: {
          domain: viewport.x, name: `ratio of ${m.label}, log scale`, nameGap: 28,
          ticks: ratioTicks(viewport.x, width),
        },
        y: {
          domain: viewport.y, grid: false, labelWidth: left - 16,
          ticks: list.map((row, i) => ({ at: at(i), label: row.label })),
        },
        hover: {
          points: drawn.map(([row, i]) => ({
            x: log.to(row.ratio), y: at(i), lines: () => [
              [ratioText(row.ratio), row.word],
              ['', `interval ${row.interval_text}`],
              ['', `p ${pText(row.p)}, adjusted ${pText(row.p_adjusted)}`],
              ['', `${row.label} (n ${row.n}) against ${row.base_label} (n ${row.base_n})`],
            ],
          })),
        },
      }],
    };
  }

  function ratioTicks(domain, width) {
    const list = ticks(log, domain, width > 700 ? 7 : 4, '');
    const one = list.some((t) => Math.abs(t.at) < 1e-9);
    return one || domain[0] > 0 || domain[1] < 0 ? list
      : [...list, { at: 0, value: 1, label: '1' }].sort((a, b) => a.at - b.at);
  }

  return {
    id: 'ratio', title: 'Against the baseline', renderer: 'svg', axes: 'xy', scene,
    controls,
    domain: () => ({
      x: model.comparisons.domain[state.metric][axis()], y: [0.4, rows().length + 0.6],
    }),
    caption: () => {
      const bare = rows().filter((row) => row.ratio === null).length;
      return `Ratio of ${metric().label} to the baseline${model.comparisons.baseline
        ? ` (${model.comparisons.baseline})` : ''}, log scale; the line at 1 is "the same". Bars: `
        + 'the interval at which the word was found; filled: a difference was shown, hollow: '
        + `none was, or too few runs. ${model.comparisons.method}${bare
          ? ` ${bare} comparisons have no ratio and are in the table only.` : ''}`;
    },
    table: () => ({
      columns: [
        { label: 'point' }, { label: 'baseline' }, { label: 'runs' },
        { label: 'ratio', numeric: true, show: ratioText }, { label: 'interval' },
        { label: 'p', numeric: true, show: pText },
        { label: 'p adjusted', numeric: true, show: pText }, { label: 'in words' },
      ],
      rows: rows().map((row) => [row.label, row.base_label, `${row.n} / ${row.base_n}`, row.ratio,
        row.interval_text, row.p, row.p_adjusted, row.word]),
      note: model.comparisons.method,
    }),
  };

  function controls(fig) {
    const again = (key) => (value) => {
      state[key] = value;
      fig.controls.replaceChildren(...controls(fig));
      fig.draw();
    };
    const out = [];
    if (names.length > 1) {
      const options = names.map((m) => [m.name, m.label]);
      out.push(select('Metric', options, state.metric, again('metric')));
    }
    if (axes().length > 1) out.push(select('Compared axis', axes(), axis(), again('axis')));
    return out;
  }
}
