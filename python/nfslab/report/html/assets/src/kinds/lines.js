// Kind "lines": panels over one x axis (lines, steps, stacks, dots with intervals, marks).

import { axisOption, axisTitle, domainOf, placed, scaleOf, shown } from '../axes.js';
import { colour, seriesLook } from '../theme.js';
import { tipLines } from '../tip.js';
import { marksOf } from './marks.js';

const SINGLE_PX = 300;
const FACET_PX = 210;
const STACKED_PX = 116;
const LEFT = 74;
const RIGHT = 18;
const NAME_PX = 20; // rotated name of a y axis
const TITLE_PX = 26;
const LEGEND_PX = 28;
const NARROW_PX = 640; // legends of panels stand below their titles
const X_PX = 46;
const LEAST_COLUMN_PX = 300;
const DODGE = 0.014; // of the axis, between series whose intervals would cover each other
const SYMBOLS_MOST = 60;
const TOLD_MOST = 14; // lines of a tooltip
const SAMPLED_FROM = 4000;

const legendOf = (series) => series.group || series.label;

/** Colours by legend entry: fixed ones, else the palette in the order of appearance. */
const stacks = (series) => series.draw.startsWith('stack');

function palette(panels) {
  const looks = new Map();
  let next = 0;
  for (const panel of panels) {
    for (const series of panel.series ?? []) {
      const key = legendOf(series);
      if (!looks.has(key)) {
        const look = seriesLook(series.colour ? looks.size : next);
        if (series.colour) look.colour = colour(series.colour);
        else next += 1;
        looks.set(key, look);
      }
    }
  }
  return looks;
}

function layout(drawing, width) {
  const { panels } = drawing;
  const most = Math.max(1, Math.floor(width / LEAST_COLUMN_PX));
  const columns = Math.min(drawing.columns || 1, most, panels.length);
  const base = panels.length === 1 ? SINGLE_PX : (drawing.columns || 1) > 1 ? FACET_PX : STACKED_PX;
  const common = (drawing.columns || 1) > 1 || panels.length === 1;
  const below = !common && width < NARROW_PX ? 22 : 0;
  const head = panels.some((panel) => panel.title) || !common ? TITLE_PX + below : 0;
  const gap = common ? X_PX + 12 : 10;
  let top = common ? LEGEND_PX + 4 : 4;
  const places = [];
  const wide = (width - RIGHT - columns * (LEFT + NAME_PX)) / columns;
  for (let i = 0; i < panels.length; i += columns) {
    const row = panels.slice(i, i + columns);
    const tall = Math.max(...row.map((panel) => panel.height ?? 1)) * base;
    row.forEach((_, k) =>
      places.push({
        left: NAME_PX + LEFT + k * (wide + LEFT + NAME_PX),
        top: top + head,
        width: wide,
        height: tall,
      }),
    );
    top += tall + head + gap;
  }
  return { places, columns, common, below, height: top - gap + X_PX };
}

function intervals(items, axis, look, name) {
  return {
    type: 'custom',
    name,
    silent: true,
    z: 4,
    clip: true,
    ...axis,
    itemStyle: { color: look.colour },
    encode: { x: 0, y: [1, 2] },
    data: items,
    renderItem: (_, api) => {
      const [x, low] = api.coord([api.value(0), api.value(1)]);
      const high = api.coord([api.value(0), api.value(2)])[1];
      const style = { stroke: look.colour, lineWidth: 1.5, fill: null };
      const line = (x1, y1, x2, y2) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style });
      return {
        type: 'group',
        children: [
          line(x, low, x, high),
          line(x - 4, low, x + 4, low),
          line(x - 4, high, x + 4, high),
        ],
      };
    },
  };
}

/** Moves series with intervals apart along x, so that their marks do not cover each other. */
function dodged(panel, xAxis, scale, domain) {
  const groups = [...new Set(panel.series.filter((s) => s.low).map(legendOf))];
  const span = scale === 'log' ? Math.log10(domain[1] / domain[0]) : domain[1] - domain[0];
  return (series, x) => {
    const rank = groups.indexOf(legendOf(series));
    if (rank < 0 || !xAxis.at?.length) return x;
    const own = series.low ? 0 : 0.45;
    const shift = (rank - (groups.length - 1) / 2 - own) * DODGE * span;
    return Array.from(x, (v) => (scale === 'log' ? v * 10 ** shift : v + shift));
  };
}

function seriesOption(series, name, look, axis, x, y) {
  const data = Array.from(x, (v, i) => [v, y[i]]);
  const common = { name, data, ...axis, itemStyle: { color: look.colour }, animation: false };
  if (series.draw === 'dots') {
    return {
      ...common,
      type: 'scatter',
      symbol: series.low ? look.shape : 'circle',
      symbolSize: series.low ? 9 : 6,
      itemStyle: { color: look.colour, opacity: series.low ? 1 : 0.55 },
      z: series.low ? 6 : 3,
    };
  }
  const line = {
    ...common,
    type: 'line',
    symbol: look.shape,
    symbolSize: 7,
    connectNulls: false,
    showSymbol: Boolean(series.low) || x.length === 1,
    z: 5,
    lineStyle: { color: look.colour, width: 1.5, type: series.dash ? 'dashed' : look.dash },
    ...(x.length > SAMPLED_FROM ? { sampling: 'minmax' } : {}),
  };
  if (series.draw === 'step') return { ...line, step: 'middle' };
  if (!stacks(series)) return line;
  return {
    ...line,
    step: series.draw === 'stack_steps' ? 'middle' : false,
    stack: `stack ${axis.xAxisIndex}`,
    showSymbol: false,
    z: 2,
    data: Array.from(x, (v, i) => [v, Number.isNaN(y[i]) ? 0 : y[i]]),
    areaStyle: { color: look.colour, opacity: 0.85 },
    lineStyle: { width: 0 },
  };
}

export function lines(drawing, { width, switched, view }) {
  const { panels } = drawing;
  const plan = layout(drawing, width);
  const shared = palette(panels);
  const option = { grid: [], xAxis: [], yAxis: [], series: [], title: [], legend: [] };
  const told = []; // by ECharts' series: what its points are
  const states = [];
  const sameY = (panel) => (plan.common ? panels : panels.filter((p) => p === panel));
  const xScales = panels.map((panel) => scaleOf(panel.x ?? drawing.x, switched));
  panels.forEach((panel, i) => {
    const rect = plan.places[i];
    const xAxis = panel.x ?? drawing.x;
    const [xScale, yScale] = [xScales[i], scaleOf(panel.y, switched)];
    const over = panels.filter((p) => (p.x ?? drawing.x) === xAxis);
    const xs = over.flatMap((p) => (p.series ?? []).map((s) => placed(s.x, xScale)));
    const ys = sameY(panel).flatMap((p) => stackedValues(p, yScale));
    const xDomain = domainOf(xAxis, xs, switched);
    const yDomain = domainOf(panel.y, ys, switched);
    const last = plan.common || i === panels.length - 1;
    const axis = { xAxisIndex: i, yAxisIndex: i };
    option.grid.push(rect);
    option.xAxis.push(
      axisOption(xAxis, {
        domain: xDomain,
        scale: xScale,
        view: () => view('x', i) ?? xDomain,
        labels: last,
        named: last,
        gridIndex: i,
        nameGap: 28,
        splitNumber: Math.max(2, Math.floor(rect.width / 90)),
      }),
    );
    option.yAxis.push(
      axisOption(panel.y, {
        domain: yDomain,
        scale: yScale,
        view: () => view('y', i) ?? yDomain,
        gridIndex: i,
        nameGap: 62,
        named: plan.common && i % plan.columns === 0,
        splitNumber: rect.height > 150 ? 5 : 3,
      }),
    );
    const looks = plan.common ? shared : palette([panel]);
    const named = (key) => (plan.common ? key : `${i}\u0000${key}`);
    const move =
      xScale === 'ordinal'
        ? (_, x) => x
        : dodged({ series: panel.series ?? [] }, xAxis, xScale, xDomain);
    for (const series of panel.series ?? []) {
      const look = looks.get(legendOf(series));
      const [x, y] = [move(series, placed(series.x, xScale)), placed(series.y, yScale)];
      const name = named(legendOf(series));
      option.series.push(seriesOption(series, name, look, axis, x, y));
      told.push({ series, panel, xAxis });
      if (series.low) {
        const [low, high] = [placed(series.low, yScale), placed(series.high, yScale)];
        const items = Array.from(x, (v, k) => [v, low[k], high[k]]).filter(
          (item) => !item.some(Number.isNaN),
        );
        option.series.push(intervals(items, axis, look, name));
        told.push(null);
      }
    }
    for (const marks of marksOf(panel, i)) {
      option.series.push(marks);
      told.push(null);
    }
    const text = [...looks.keys()];
    if (panel.title || !plan.common) {
      option.title.push({
        text: panel.title,
        left: rect.left,
        top: rect.top - 22 - plan.below,
        padding: 0,
        textStyle: { color: colour('fg'), fontSize: 12, fontWeight: 600 },
      });
    }
    if (!plan.common && text.some((key) => key !== panel.title)) {
      const room = plan.below ? rect.width : rect.width - 7.5 * panel.title.length - 24;
      const place = plan.below ? { left: rect.left } : { right: RIGHT };
      option.legend.push(legend(text.map(named), { ...place, top: rect.top - 25, width: room }));
    }
    states.push({
      title: panel.title ?? '',
      x: xDomain,
      y: yDomain,
      series: (panel.series ?? []).map((s) => ({ label: s.label, points: s.x.length })),
    });
  });
  const entries = [...shared.keys()];
  if (plan.common && (entries.length > 1 || entries[0])) {
    option.legend.push(legend(entries, { left: NAME_PX, top: 0, width: width - 2 * NAME_PX }));
  }
  const flat = panels.every((p) => (p.series ?? []).every((s) => s.draw === 'dots' || s.low));
  option.tooltip = flat ? itemTip(told) : axisTip(told);
  return {
    option,
    height: plan.height,
    zoomY: panels.length === 1 || plan.common,
    states,
    table: () => table(drawing),
  };
}

function stackedValues(panel, scale) {
  const all = [];
  let sum = null;
  for (const s of panel.series ?? []) {
    if (stacks(s)) {
      sum = sum ? sum.map((v, i) => v + (s.y[i] || 0)) : Array.from(s.y, (v) => v || 0);
    } else all.push(placed(s.y, scale), placed(s.low, scale), placed(s.high, scale));
  }
  for (const level of panel.levels ?? []) all.push([level.y]);
  return sum ? [...all, sum, [0]] : all;
}

const legend = (data, place) => ({
  type: 'scroll',
  data,
  itemWidth: 18,
  itemHeight: 12,
  textStyle: { color: colour('fg'), fontSize: 11.5, lineHeight: 18 },
  inactiveColor: colour('line'),
  pageTextStyle: { color: colour('muted') },
  pageIconColor: colour('link'),
  formatter: (name) => name.split('\u0000').at(-1),
  ...place,
});

const valueLine = ({ series, panel }, i, shade) => {
  const range =
    series.low && !Number.isNaN(series.low[i])
      ? `${shown(panel.y, series.low[i])} to ${shown(panel.y, series.high[i])}`
      : '';
  return [[shown(panel.y, series.y[i]), series.label, shade], ...(range ? [['', range]] : [])];
};

const itemTip = (told) => ({
  trigger: 'item',
  formatter: ({ seriesIndex, dataIndex, color }) => {
    const found = told[seriesIndex];
    if (!found) return '';
    const { series, panel, xAxis } = found;
    return tipLines([
      ...valueLine(found, dataIndex, color),
      ['', `${axisTitle(xAxis)} ${shown(xAxis, series.x[dataIndex], 4)}`],
      ...(panel.title ? [['', panel.title]] : []),
      ...(series.hints?.[dataIndex] ? [['', series.hints[dataIndex]]] : []),
    ]);
  },
});

const axisTip = (told) => ({
  trigger: 'axis',
  axisPointer: { type: 'line', lineStyle: { color: colour('frame') } },
  formatter: (list) => {
    const items = list.filter((p) => told[p.seriesIndex]);
    if (!items.length) return '';
    const first = told[items[0].seriesIndex];
    const x = first.series.x[items[0].dataIndex];
    return tipLines([
      [shown(first.xAxis, x, 4), first.panel.title ?? ''],
      ...items.slice(0, TOLD_MOST).flatMap((p) => {
        const found = told[p.seriesIndex];
        const hint = found.series.hints?.[p.dataIndex];
        return [...valueLine(found, p.dataIndex, p.color), ...(hint ? [['', hint]] : [])];
      }),
      ...(items.length > TOLD_MOST ? [['', `and ${items.length - TOLD_MOST} more`]] : []),
    ]);
  },
});

function table(drawing) {
  const { panels } = drawing;
  const all = panels.flatMap((panel) => (panel.series ?? []).map((series) => ({ panel, series })));
  const some = (test) => all.some(({ series }) => test(series));
  const titled = panels.some((panel) => panel.title);
  const ranged = some((s) => s.low);
  const hinted = some((s) => s.hints?.length);
  const columns = [
    ...(titled ? [{ label: 'panel' }] : []),
    { label: 'series' },
    { label: axisTitle(drawing.x), numeric: true },
    { label: panels.length === 1 ? axisTitle(panels[0].y) : 'value', numeric: true },
    ...(ranged
      ? [
          { label: 'from', numeric: true },
          { label: 'to', numeric: true },
        ]
      : []),
    ...(hinted ? [{ label: 'remark' }] : []),
  ];
  function* rows() {
    for (const { panel, series } of all) {
      const xAxis = panel.x ?? drawing.x;
      const cell = (axis, value) => ({ value, text: shown(axis, value, axis === xAxis ? 4 : 3) });
      for (let i = 0; i < series.x.length; i += 1) {
        yield [
          ...(titled ? [panel.title ?? ''] : []),
          series.label,
          cell(xAxis, series.x[i]),
          cell(panel.y, series.y[i]),
          ...(ranged ? [cell(panel.y, series.low?.[i]), cell(panel.y, series.high?.[i])] : []),
          ...(hinted ? [series.hints?.[i] ?? ''] : []),
        ];
      }
    }
  }
  const n = all.reduce((sum, { series }) => sum + series.x.length, 0);
  return { columns, rows, n };
}
