// Kind "bars": values by category with intervals, as bars from zero or as marks beside a reference.

import { axisOption, axisTitle, domainOf, placed, scaleOf, shown } from '../axes.js';
import { colour, seriesLook } from '../theme.js';
import { tipLines } from '../tip.js';

const ROW_PX = (rows) => (rows > 40 ? 20 : 28);
const LEAST_PX = 80;
const WORD_PX = 6.6;
const BAR_SHARE = 0.7; // of a row
const TONES = { good: 'good', bad: 'bad', changed: 'c1', faint: 'muted' };

/** Rows from the top; bars of one label and different groups share a row. */
function rowsOf(bars) {
  const rows = [];
  const groups = [...new Set(bars.map((bar) => bar.group ?? ''))];
  for (const bar of bars) {
    const group = groups.indexOf(bar.group ?? '');
    const found = rows.find((row) => row.label === bar.label && !row.bars[group]);
    if (found) found.bars[group] = bar;
    else rows.push({ label: bar.label, bars: Object.assign([], { [group]: bar }) });
  }
  return { rows, groups };
}

const paintOf = (bar, group) => (bar.tone ? colour(TONES[bar.tone]) : seriesLook(group).colour);

export function bars(drawing, { width, switched, view }) {
  const { axis } = drawing;
  const scale = scaleOf(axis, switched);
  const { rows, groups } = rowsOf(drawing.bars);
  const known = drawing.bars
    .flatMap((bar) => [bar.value, bar.low, bar.high, ...(bar.dots ?? [])])
    .filter((v) => v !== null && v !== undefined);
  if (drawing.reference !== undefined) known.push(drawing.reference);
  if (!drawing.marks && scale !== 'log') known.push(0);
  const domain = domainOf(axis, [placed(known, scale)], switched);
  const left = Math.min(330, Math.max(110, width * 0.3));
  const beside = rows.map(
    (row) =>
      row.bars
        .filter(Boolean)
        .map((bar) => bar.hint ?? '')
        .find(Boolean) ?? '',
  );
  const longest = Math.max(0, ...beside.map((text) => text.length)) * WORD_PX;
  const right = width > 640 && longest ? Math.min(longest + 20, width * 0.35) : 20;
  const tall = Math.max(
    LEAST_PX,
    rows.length * ROW_PX(rows.length) * (groups.length > 1 ? 1.3 : 1),
  );
  const legend = groups.length > 1 || groups[0];
  const top = legend ? 30 : 8;
  const category = (data, position, room, paint) => ({
    type: 'category',
    data,
    inverse: true,
    position,
    axisLine: { show: false },
    axisTick: { show: false },
    axisLabel: {
      color: paint,
      fontSize: 12,
      interval: 0,
      width: room - 14,
      overflow: 'truncate',
      formatter: (text) => text,
    },
  });
  const series = groups.map((group, g) => ({
    type: 'custom',
    name: group,
    clip: true,
    animation: false,
    z: 5,
    itemStyle: { color: seriesLook(g).colour },
    encode: { x: 1, y: 0 },
    data: rows.map((row, i) => [i, row.bars[g]?.value ?? NaN]),
    renderItem: (_, api) =>
      drawBar(rows[api.value(0)].bars[g], g, groups.length, api, drawing.marks, domain, scale),
  }));
  if (drawing.reference !== undefined) {
    series.push({
      type: 'line',
      data: [],
      silent: true,
      markLine: {
        silent: true,
        symbol: 'none',
        animation: false,
        label: { show: false },
        lineStyle: { color: colour('fg'), type: 'solid', width: 1.2 },
        data: [{ xAxis: drawing.reference }],
      },
    });
  }
  return {
    option: {
      grid: [{ left, top, width: width - left - right, height: tall }],
      xAxis: [
        axisOption(axis, {
          domain,
          scale,
          view: () => view('x', 0) ?? domain,
          nameGap: 26,
          splitNumber: Math.max(2, Math.floor((width - left - right) / 90)),
        }),
      ],
      yAxis: [
        category(
          rows.map((row) => row.label),
          'left',
          left,
          colour('fg'),
        ),
        ...(right > 20 ? [category(beside, 'right', right, colour('muted'))] : []),
      ],
      legend: legend ? [{ data: groups, top: 0, left: 0, textStyle: { color: colour('fg') } }] : [],
      series,
      tooltip: {
        trigger: 'item',
        formatter: ({ seriesIndex, dataIndex }) => {
          const bar = rows[dataIndex]?.bars[seriesIndex];
          return bar
            ? tipLines([
                [shown(axis, bar.value), axisTitle(axis)],
                ...(bar.low === undefined
                  ? []
                  : [['', `${shown(axis, bar.low)} to ${shown(axis, bar.high)}`]]),
                ['', [bar.label, bar.group].filter(Boolean).join(', ')],
                ...(bar.hint ? [['', bar.hint]] : []),
              ])
            : '';
        },
      },
    },
    height: top + tall + 46,
    zoomY: false,
    states: [
      {
        title: '',
        x: domain,
        y: [0, rows.length],
        series: groups.map((group, g) => ({
          label: group,
          points: rows.filter((row) => row.bars[g]).length,
        })),
      },
    ],
    table: () => table(drawing, groups),
  };
}

function drawBar(bar, group, groups, api, marks, domain, scale) {
  if (!bar || bar.value === undefined || (scale === 'log' && !(bar.value > 0))) return null;
  const row = api.value(0);
  const [x, centre] = api.coord([bar.value, row]);
  const room = (api.size([0, 1])[1] * BAR_SHARE) / groups;
  const y = centre + (group - (groups - 1) / 2) * room;
  const paint = paintOf(bar, group);
  const bare = bar.tone === 'faint' || bar.tone === undefined;
  const children = [];
  if (!marks) {
    const [zero] = api.coord([scale === 'log' ? domain[0] : 0, row]);
    children.push({
      type: 'rect',
      style: { fill: paint, opacity: 0.8 },
      shape: {
        x: Math.min(x, zero),
        y: y - room * 0.42,
        width: Math.abs(x - zero),
        height: room * 0.84,
      },
    });
  }
  for (const value of bar.dots ?? []) {
    children.push({
      type: 'circle',
      style: { fill: paint, opacity: 0.5 },
      shape: { cx: api.coord([value, row])[0], cy: y - room * 0.32, r: 3 },
    });
  }
  if (bar.low !== undefined && bar.high !== undefined) {
    const [a, b] = [bar.low, bar.high].map(
      (v) => api.coord([Math.max(v, scale === 'log' ? domain[0] / 10 : -Infinity), row])[0],
    );
    const style = { stroke: marks ? paint : colour('fg'), lineWidth: 2, fill: null };
    const line = (x1, y1, x2, y2) => ({ type: 'line', shape: { x1, y1, x2, y2 }, style });
    children.push(line(a, y, b, y), line(a, y - 4, a, y + 4), line(b, y - 4, b, y + 4));
  }
  if (marks) {
    children.push({
      type: 'circle',
      shape: { cx: x, cy: y, r: 4.5 },
      style: { fill: bare ? colour('bg') : paint, stroke: paint, lineWidth: 2 },
    });
  }
  return { type: 'group', children };
}

function table(drawing, groups) {
  const several = groups.length > 1 || groups[0];
  const cell = (value) => ({ value, text: shown(drawing.axis, value) });
  const ranged = drawing.bars.some((bar) => bar.low !== undefined);
  const hinted = drawing.bars.some((bar) => bar.hint);
  return {
    columns: [
      { label: 'row' },
      ...(several ? [{ label: 'of' }] : []),
      { label: axisTitle(drawing.axis), numeric: true },
      ...(ranged
        ? [
            { label: 'from', numeric: true },
            { label: 'to', numeric: true },
          ]
        : []),
      ...(hinted ? [{ label: 'remark' }] : []),
    ],
    rows: () =>
      drawing.bars.map((bar) => [
        bar.label,
        ...(several ? [bar.group ?? ''] : []),
        cell(bar.value),
        ...(ranged ? [cell(bar.low), cell(bar.high)] : []),
        ...(hinted ? [bar.hint ?? ''] : []),
      ]),
    n: drawing.bars.length,
  };
}
