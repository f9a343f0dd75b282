// Kinds "bars" (values by category with intervals, as bars from zero or as marks beside a
// reference) and "stacked" (parts of wholes by category, as shares or amounts): both lie in rows.

import { axisTitle, placed, reached, scaleOf, shown } from '../axes.js';
import { box, Chart, segment, tipLines } from '../chart.js';
import { percent } from '../format.js';
import { colour, seriesLook } from '../theme.js';

const WORD_PX = 7;
const BAR_SHARE = 0.7; // of a row
const LINE_PX = 14;
const TONES = { good: 'good', bad: 'bad', changed: 'c1', faint: 'muted' };

const sum = (values) => values.reduce((a, b) => a + (b || 0), 0);

const labelRoom = (width) => Math.min(330, Math.max(110, width * 0.3));

/** Lines that a text takes in so many px, broken between its words. */
function linesOf(text, room) {
  let [lines, at] = [1, 0];
  for (const word of text.split(' ')) {
    const long = (word.length + 1) * WORD_PX;
    if (at && at + long > room) [lines, at] = [lines + 1, 0];
    lines += Math.max(0, Math.ceil(long / room) - 1);
    at += long;
  }
  return lines;
}

/**
 * A panel with a row for each label, the first at the top, at least `each` px high: labels are
 * broken into lines, not cut. `beside`: texts at the right.
 */
function rowsPanel(chart, [axis, values], labels, { top, each, beside = [] }) {
  const { width } = chart;
  const left = labelRoom(width);
  const room = left - 14;
  // "axis=level" is one word: where it is too long it may be broken after the sign.
  const long = (word) => (word.length + 1) * WORD_PX > room;
  const words = (label) => label.split(' ').map((w) => (long(w) ? w.replaceAll('=', '= ') : w));
  const texts = labels.map((label) => words(label).join(' '));
  const lines = Math.max(1, ...texts.map((text) => linesOf(text, room)));
  const row = lines > 1 ? Math.max(each, lines * LINE_PX + 8) : each;
  const height = Math.max(60, labels.length * row);
  const longest = Math.max(0, ...beside.map((text) => text.length)) * WORD_PX;
  const right = width > 640 && longest ? Math.min(longest + 20, width * 0.35) : 20;
  const category = (levels, room, paint, position) => [
    { scale: 'ordinal', levels },
    {
      position,
      inverse: true,
      axisLine: { show: false },
      room: room - 14,
      axisLabel: {
        color: colour(paint),
        fontSize: 12,
        overflow: 'break',
        lineHeight: LINE_PX,
      },
    },
  ];
  const rect = { left, top, width: width - left - right, height };
  chart.panel(rect, [axis, { values, nameGap: 26 }], category(texts, left, 'fg', 'left'));
  if (right > 20) chart.axis('y', ...category(beside, right, 'muted', 'right'));
}

/** Rows from the top; bars of one label and different groups share a row. */
function rowsOf(bars) {
  const rows = [];
  const groups = [...new Set(bars.map((bar) => bar.group ?? ''))];
  for (const bar of bars) {
    const group = groups.indexOf(bar.group ?? '');
    let row = rows.find((one) => one.label === bar.label && !one.bars[group]);
    if (!row) rows.push((row = { label: bar.label, bars: [] }));
    row.bars[group] = bar;
  }
  return { rows, groups };
}

export function bars(drawing, width, switched) {
  const { axis, marks, reference } = drawing;
  const chart = new Chart(width, switched);
  const log = scaleOf(axis, switched) === 'log';
  const { rows, groups } = rowsOf(drawing.bars);
  const several = groups.length > 1 || groups[0];
  const scale = log ? 'log' : 'linear';
  const known = (all) => placed(all.filter((v) => v !== null && v !== undefined), scale);
  const values = known([
    ...drawing.bars.flatMap((bar) => [bar.value, ...(bar.dots ?? [])]),
    reference,
    marks || log ? undefined : 0,
  ]);
  const ends = known(drawing.bars.flatMap((bar) => [bar.low, bar.high]));
  const each = (rows.length > 40 ? 20 : 28) * (groups.length > 1 ? 1.3 : 1);
  rowsPanel(
    chart,
    [axis, [values, reached(ends, values, scale)]],
    rows.map((row) => row.label),
    {
      top: several ? 30 : 8,
      each,
      beside: rows.map((row) => row.bars.find((bar) => bar?.hint)?.hint ?? ''),
    },
  );
  const word = (value) => shown(axis, value);
  const floor = log ? chart.states[0].x[0] : 0;
  groups.forEach((group, g) => {
    const series = {
      type: 'custom',
      name: group,
      z: 5,
      itemStyle: { color: seriesLook(g).colour },
      encode: { x: 1, y: 0 },
      data: rows.map((row, i) => [i, row.bars[g]?.value ?? NaN]),
      renderItem: (_, api) => {
        const at = api.value(0);
        const bar = rows[at].bars[g];
        if (bar?.value === undefined || (log && !(bar.value > 0))) return null;
        const room = (api.size([0, 1])[1] * BAR_SHARE) / groups.length;
        const [, centre] = api.coord([bar.value, at]);
        const y = centre + (g - (groups.length - 1) / 2) * room;
        const place = (v) => api.coord([Math.max(v, log ? floor / 10 : -Infinity), at])[0];
        return drawBar(bar, { y, room, place, floor, marks, g });
      },
    };
    chart.add(series, (i) => {
      const bar = rows[i].bars[g];
      return [
        [word(bar.value), axisTitle(axis)],
        ...(bar.low === undefined ? [] : [['', `${word(bar.low)} to ${word(bar.high)}`]]),
        ['', [bar.label, bar.group].filter(Boolean).join(', ')],
        ...(bar.hint ? [['', bar.hint]] : []),
      ];
    });
    chart.drew(group, rows.filter((row) => row.bars[g]).length);
  });
  const line = { at: reference, colour: 'fg', type: 'solid' };
  if (reference !== undefined) chart.mark({ rules: [line] });
  if (several) chart.legend(groups);
  const ranged = drawing.bars.some((bar) => bar.low !== undefined);
  return chart.table(drawing.bars, [
    ['row', (bar) => bar.label],
    several && ['of', (bar) => bar.group ?? ''],
    [axisTitle(axis), (bar) => bar.value, word],
    ranged && ['from', (bar) => bar.low, word],
    ranged && ['to', (bar) => bar.high, word],
    drawing.bars.some((bar) => bar.hint) && ['remark', (bar) => bar.hint ?? ''],
  ]);
}

function drawBar(bar, { y, room, place, floor, marks, g }) {
  const paint = bar.tone ? colour(TONES[bar.tone]) : seriesLook(g).colour;
  const dot = (value, cy, r, style) => ({
    type: 'circle',
    shape: { cx: place(value), cy, r },
    style,
  });
  const children = Array.from(bar.dots ?? [], (value) =>
    dot(value, y - room * 0.32, 3, { fill: paint, opacity: 0.5 }),
  );
  if (!marks) {
    const ends = [place(floor), place(bar.value)].sort((a, b) => a - b);
    const style = { fill: paint, opacity: 0.8 };
    children.unshift(box(ends[0], y - room * 0.42, ends[1] - ends[0], room * 0.84, style));
  }
  if (bar.low !== undefined && bar.high !== undefined) {
    const [a, b] = [place(bar.low), place(bar.high)];
    const style = { stroke: marks ? paint : colour('fg') };
    const ends = [a, b].map((x) => segment(x, y - 4, x, y + 4, style));
    children.push(segment(a, y, b, y, style), ...ends);
  }
  if (marks) {
    const bare = bar.tone === 'faint' || bar.tone === undefined;
    const style = { fill: bare ? colour('bg') : paint, stroke: paint, lineWidth: 2 };
    children.push(dot(bar.value, y, 4.5, style));
  }
  return { type: 'group', children };
}

export function stacked(drawing, width, switched) {
  const { parts, wholes, axis: amounts, shares } = drawing;
  const chart = new Chart(width, switched);
  const axis = shares ? { name: 'share', unit: 'share', high: 1 } : amounts;
  const totals = wholes.map((whole) => sum(whole.parts));
  const looks = parts.map((part, k) => seriesLook(k, part.colour).colour);
  const legendRows = Math.ceil(sum(parts.map((part) => part.label.length * 6.5 + 40)) / width);
  const labels = wholes.map((whole) => whole.label);
  const beside = shares ? totals.map((total) => shown(amounts, total)) : [];
  const shape = { top: 8 + 24 * legendRows, each: 30, beside };
  rowsPanel(chart, [{ ...axis, low: 0 }, [totals]], labels, shape);
  const share = (value, i) => percent(value / (totals[i] || 1));
  parts.forEach((part, k) => {
    chart.add({
      type: 'bar',
      name: part.label,
      stack: 'whole',
      barWidth: '66%',
      itemStyle: { color: looks[k] },
      data: wholes.map(({ parts: of }, i) => (shares ? of[k] / (totals[i] || 1) : of[k])),
    });
    chart.drew(part.label, wholes.length);
  });
  chart.legend(parts.map((part) => part.label), { type: 'plain', itemWidth: 14 });
  Object.assign(chart.option.tooltip, {
    trigger: 'axis',
    axisPointer: { type: 'shadow' },
    formatter: ([{ dataIndex: i }]) =>
      tipLines([
        [shown(amounts, totals[i]), wholes[i].label],
        ...parts.map((part, k) => {
          const value = wholes[i].parts[k];
          return [shown(amounts, value), `${part.label} (${share(value, i)})`, looks[k]];
        }),
        ...(wholes[i].hint ? [['', wholes[i].hint]] : []),
      ]),
  });
  return chart.table([...wholes.keys()], [
    ['row', (i) => wholes[i].label],
    ...parts.map((part, k) => [
      part.label,
      (i) => wholes[i].parts[k],
      (v, i) => `${shown(amounts, v)} (${share(v, i)})`,
    ]),
    [axisTitle(amounts) || 'whole', (i) => totals[i], (v) => shown(amounts, v)],
    ['remark', (i) => wholes[i].hint ?? ''],
  ]);
}
