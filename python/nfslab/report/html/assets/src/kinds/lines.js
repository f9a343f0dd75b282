// Kind "lines": panels over one x axis (lines, steps, stacks, dots with intervals, marks).

import { axisTitle, placed, reached, scaleOf, shown } from '../axes.js';
import { Chart, segment, tipLines } from '../chart.js';
import { colour, seriesLook } from '../theme.js';

const SINGLE_PX = 300;
const FACET_PX = 210;
const STACKED_PX = 116;
const LEFT = 94;
const RIGHT = 18;
const TITLE_PX = 26;
const LEGEND_PX = 28;
const NARROW_PX = 640; // legends of panels stand below their titles
const LEAST_COLUMN_PX = 300;
const DODGE = 0.014; // of the axis, between series whose intervals would cover each other
const TOLD_MOST = 14; // lines of a tooltip
const SAMPLED_FROM = 4000;

const legendOf = (series) => series.group || series.label;
const stacks = (series) => series.draw.startsWith('stack');
const seriesOf = (panels) => panels.flatMap((panel) => panel.series ?? []);

/** Looks by legend entry: fixed colours, else the palette in the order of appearance. */
function palette(panels) {
  const looks = new Map();
  let next = 0;
  for (const series of seriesOf(panels)) {
    const key = legendOf(series);
    if (looks.has(key)) continue;
    looks.set(key, seriesLook(series.colour ? looks.size : next, series.colour));
    if (!series.colour) next += 1;
  }
  return looks;
}

/** Where panels stand. `common`: one legend and y axes named at the left, else each panel's own. */
function layout({ panels, columns: wanted = 1 }, width) {
  const columns = Math.min(wanted, Math.max(1, Math.floor(width / LEAST_COLUMN_PX)), panels.length);
  const common = wanted > 1 || panels.length === 1;
  const usual = panels.length === 1 ? SINGLE_PX : wanted > 1 ? FACET_PX : STACKED_PX;
  const below = !common && width < NARROW_PX ? 22 : 0;
  const head = panels.some((panel) => panel.title) || !common ? TITLE_PX + below : 0;
  const wide = (width - RIGHT) / columns - LEFT;
  let top = common ? LEGEND_PX + 4 : 4;
  const places = [];
  for (let i = 0; i < panels.length; i += columns) {
    const row = panels.slice(i, i + columns);
    const height = Math.max(...row.map((panel) => panel.height ?? 1)) * usual;
    row.forEach((_, k) =>
      places.push({ left: LEFT + k * (wide + LEFT), top: top + head, width: wide, height }),
    );
    top += head + height + (common ? 58 : 10);
  }
  return { places, columns, common, below };
}

function intervals(data, look, name) {
  return {
    type: 'custom',
    name,
    silent: true,
    z: 4,
    itemStyle: { color: look.colour },
    encode: { x: 0, y: [1, 2] },
    data,
    renderItem: (_, api) => {
      const [x, low] = api.coord([api.value(0), api.value(1)]);
      const [, high] = api.coord([api.value(0), api.value(2)]);
      const style = { stroke: look.colour, lineWidth: 1.5 };
      const ends = [low, high].map((y) => segment(x - 4, y, x + 4, y, style));
      return { type: 'group', children: [segment(x, low, x, high, style), ...ends] };
    },
  };
}

/** Moves series with intervals apart along x, so that their marks do not cover each other. */
function dodged(panel, axis, scale, [low, high]) {
  const groups = [...new Set((panel.series ?? []).filter((s) => s.low).map(legendOf))];
  const span = scale === 'log' ? Math.log10(high / low) : high - low;
  return (series, x) => {
    const rank = groups.indexOf(legendOf(series));
    if (rank < 0 || !axis.at?.length || scale === 'ordinal') return x;
    const shift = (rank - (groups.length - 1) / 2 - (series.low ? 0 : 0.45)) * DODGE * span;
    return Array.from(x, (v) => (scale === 'log' ? v * 10 ** shift : v + shift));
  };
}

function seriesOption({ series }, name, look, x, y, panel) {
  const stack = stacks(series);
  const data = Array.from(x, (v, i) => [v, stack && Number.isNaN(y[i]) ? 0 : y[i]]);
  const common = { name, data, itemStyle: { color: look.colour } };
  if (series.draw === 'dots') {
    const whole = Boolean(series.low);
    return {
      ...common,
      type: 'scatter',
      symbol: whole ? look.shape : 'circle',
      symbolSize: whole ? 9 : 6,
      itemStyle: { color: look.colour, opacity: whole ? 1 : 0.55 },
      z: whole ? 6 : 3,
    };
  }
  const lineStyle = { color: look.colour, width: 1.5, type: series.dash ? 'dashed' : look.dash };
  return {
    ...common,
    type: 'line',
    symbol: look.shape,
    symbolSize: 7,
    showSymbol: !stack && (Boolean(series.low) || x.length === 1),
    step: { held: 'end', step: 'middle', stack_steps: 'middle' }[series.draw] ?? false,
    lineStyle: stack ? { width: 0 } : lineStyle,
    z: stack ? 2 : 5,
    ...(x.length > SAMPLED_FROM ? { sampling: 'minmax' } : {}),
    ...(stack ? { stack: panel, areaStyle: { color: look.colour, opacity: 0.85 } } : {}),
  };
}

/** What a y axis has to hold. */
function heights(panel, scale) {
  const { series = [], levels = [] } = panel;
  const stack = series.filter(stacks);
  const sum = (_, i) => stack.reduce((all, { y }) => all + (y[i] || 0), 0);
  const apart = series.filter((s) => !stacks(s));
  const values = apart.flatMap(({ y }) => Array.from(placed(y, scale)));
  const both = apart.flatMap(({ low, high }) => [low, high]);
  const ends = both.flatMap((end) => [...placed(end, scale)]);
  return [
    values,
    reached(ends, values, scale),
    levels.map(({ y }) => y),
    ...(stack.length ? [Array.from(stack[0].y, sum), [0]] : []),
  ];
}

export function lines(drawing, width, switched) {
  const { panels } = drawing;
  const chart = new Chart(width, switched);
  const { places, columns, common, below } = layout(drawing, width);
  const shared = palette(panels);
  const told = []; // by ECharts' series: what its points are
  panels.forEach((panel, i) => {
    const rect = places[i];
    const xAxis = panel.x ?? drawing.x;
    const [xScale, yScale] = [scaleOf(xAxis, switched), scaleOf(panel.y, switched)];
    const over = panels.filter((p) => (p.x ?? drawing.x) === xAxis);
    const last = common || i === panels.length - 1;
    const named = common && i % columns === 0;
    const y = { values: (common ? panels : [panel]).flatMap((p) => heights(p, yScale)) };
    const x = { values: seriesOf(over).map((s) => placed(s.x, xScale)), labels: last };
    chart.panel(
      rect,
      [xAxis, { ...x, nameGap: 28, ...(last ? {} : { name: '' }) }],
      [panel.y, { ...y, nameGap: 62, ...(named ? {} : { name: '' }) }],
      panel.title ?? '',
    );
    const looks = common ? shared : palette([panel]);
    const entry = (key) => (common ? key : `${i}\u0000${key}`);
    const move = dodged(panel, xAxis, xScale, chart.states[i].x);
    for (const series of panel.series ?? []) {
      const look = looks.get(legendOf(series));
      const at = move(series, placed(series.x, xScale));
      const name = entry(legendOf(series));
      const of = { series, panel, xAxis };
      told[chart.told.length] = of;
      chart.add(seriesOption(of, name, look, at, placed(series.y, yScale), i), (k, shade) => [
        ...valueLines(of, k, shade),
        ['', `${axisTitle(xAxis)} ${shown(xAxis, series.x[k], 4)}`],
        ...(panel.title ? [['', panel.title]] : []),
      ]);
      chart.drew(series.label, series.x.length);
      if (!series.low) continue;
      const [low, high] = [placed(series.low, yScale), placed(series.high, yScale)];
      const ends = Array.from(at, (v, k) => [v, low[k], high[k]]);
      chart.add(intervals(ends.filter((end) => !end.some(Number.isNaN)), look, name));
    }
    chart.mark(panel);
    const entries = [...looks.keys()];
    if (panel.title || !common) {
      chart.option.title.push({
        text: panel.title,
        left: rect.left,
        top: rect.top - 22 - below,
        padding: 0,
        textStyle: { color: colour('fg'), fontSize: 12, fontWeight: 600 },
      });
    }
    if (!common && entries.some((key) => key !== panel.title)) {
      const free = below ? rect.width : rect.width - 7.5 * panel.title.length - 24;
      chart.legend(entries.map(entry), {
        ...(below ? { left: rect.left } : { left: undefined, right: RIGHT }),
        formatter: (name) => name.split('\u0000').at(-1),
        top: rect.top - 25,
        width: free,
      });
    }
  });
  const entries = [...shared.keys()];
  if (common && (entries.length > 1 || entries[0])) {
    chart.legend(entries, { left: 20, width: width - 40 });
  }
  chart.zoomY = common;
  if (!seriesOf(panels).every((s) => s.draw === 'dots' || s.low)) tellByAxis(chart, told);
  return numbers(chart, drawing);
}

const range = ({ panel, series }, i) =>
  series.low && !Number.isNaN(series.low[i])
    ? `${shown(panel.y, series.low[i])} to ${shown(panel.y, series.high[i])}`
    : '';

function valueLines(of, i, shade) {
  const { panel, series } = of;
  const remarks = [range(of, i), series.hints?.[i]].filter(Boolean);
  return [[shown(panel.y, series.y[i]), series.label, shade], ...remarks.map((text) => ['', text])];
}

/** One tooltip for all series at a place of x. */
function tellByAxis(chart, told) {
  Object.assign(chart.option.tooltip, {
    trigger: 'axis',
    axisPointer: { type: 'line', lineStyle: { color: colour('frame') } },
    formatter: (list) => {
      const items = list.filter((item) => told[item.seriesIndex]);
      if (!items.length) return '';
      const first = told[items[0].seriesIndex];
      const over = items.length - TOLD_MOST;
      return tipLines([
        [shown(first.xAxis, first.series.x[items[0].dataIndex], 4), first.panel.title ?? ''],
        ...items
          .slice(0, TOLD_MOST)
          .flatMap((p) => valueLines(told[p.seriesIndex], p.dataIndex, p.color)),
        ...(over > 0 ? [['', `and ${over} more`]] : []),
      ]);
    },
  });
}

function numbers(chart, { x, panels }) {
  const all = seriesOf(panels);
  const ranged = all.some((s) => s.low);
  function* rows() {
    for (const panel of panels) {
      for (const series of panel.series ?? []) {
        for (let i = 0; i < series.x.length; i += 1) yield { panel, series, i };
      }
    }
  }
  const inY = (value, { panel }) => shown(panel.y, value);
  return chart.table(
    rows,
    [
      panels.some((panel) => panel.title) && ['panel', ({ panel }) => panel.title ?? ''],
      ['series', ({ series }) => series.label],
      [axisTitle(x), ({ series, i }) => series.x[i], (v, { panel }) => shown(panel.x ?? x, v, 4)],
      [panels.length === 1 ? axisTitle(panels[0].y) : 'value', ({ series, i }) => series.y[i], inY],
      ranged && ['from', ({ series, i }) => series.low?.[i], inY],
      ranged && ['to', ({ series, i }) => series.high?.[i], inY],
      all.some((s) => s.hints?.length) && ['remark', ({ series, i }) => series.hints?.[i] ?? ''],
    ],
    all.reduce((sum, series) => sum + series.x.length, 0),
  );
}
