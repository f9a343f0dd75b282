// What all kinds of figures have in common: panels with two axes, series that tell what their
// points are, a legend, marks, and the numbers as a table.

import { axisOption, ticks } from './axes.js';
import { h } from './dom.js';
import { colour } from './theme.js';

const X_PX = 46; // ticks and name of an x axis
const FONT = "system-ui, 'DejaVu Sans', sans-serif";
const TICK_PX = 70;
const HALF_LETTER_PX = 3.2;

/** `lines`: [value, what, colour]; a line without a value is a remark. Elements, so that text of
    others never becomes markup. */
export const tipLines = (lines) =>
  h(
    'div',
    { class: 'tip-lines' },
    lines.map(([value, what, shade]) => {
      const chip = shade && h('i', { class: 'chip' });
      if (chip) chip.style.color = shade;
      return h('div', {}, chip, chip && ' ', h('b', {}, value), value && what ? ' ' : '', what);
    }),
  );

/** Shapes of custom series. */
export const segment = (x1, y1, x2, y2, style) => ({
  type: 'line',
  shape: { x1, y1, x2, y2 },
  style: { fill: null, lineWidth: 2, ...style },
});
export const box = (x, y, width, height, style) => ({
  type: 'rect',
  shape: { x, y, width, height },
  style,
});

export class Chart {
  /** `switched`: what a reader chose of the axes' choices. */
  constructor(width, switched) {
    this.width = width;
    this.switched = switched;
    this.told = []; // by ECharts' series: its points as lines of a tooltip
    this.states = []; // by panel: what is drawn, for tests and for curious people
    this.axes = { x: [], y: [] }; // ticks of each axis for the ends in view
    this.zoomY = true;
    this.option = {
      animation: false,
      backgroundColor: 'transparent',
      textStyle: { fontFamily: FONT },
      ...{ grid: [], xAxis: [], yAxis: [], title: [], legend: [], series: [] },
      tooltip: {
        confine: true,
        backgroundColor: colour('bg'),
        borderColor: colour('frame'),
        textStyle: { color: colour('fg'), fontSize: 12 },
        extraCssText: 'max-width:420px;white-space:normal',
        transitionDuration: 0,
        trigger: 'item',
        formatter: ({ seriesIndex, dataIndex, color, data }) => {
          const tell = this.told[seriesIndex];
          return tell ? tipLines(tell(dataIndex, color, data)) : '';
        },
      },
    };
  }

  /** A panel at `rect`; `x` and `y`: [axis, what axisOption takes beside it]. */
  panel(rect, x, y, title = '') {
    this.states.push({ title, series: [] });
    this.option.grid.push(rect);
    this.states.at(-1).x = this.axis('x', ...x, Math.max(2, Math.floor(rect.width / TICK_PX)));
    this.states.at(-1).y = this.axis('y', ...y, rect.height > 150 ? 5 : 3);
    this.height = Math.max(this.height ?? 0, rect.top + rect.height + X_PX);
  }

  /** One more axis of the newest panel; its ends. */
  axis(key, axis, given, parts) {
    const at = { switched: this.switched, gridIndex: this.states.length - 1, parts };
    const { made, scale, domain } = axisOption(axis, { ...at, ...given });
    this.option[`${key}Axis`].push(made);
    this.axes[key].push((ends) => ticks(axis, scale, ends, parts));
    return domain;
  }

  /** A series of the newest panel; `tell(i, colour, item)` gives the lines of a point's tooltip. */
  add(series, tell) {
    const index = this.states.length - 1;
    this.told.push(tell);
    this.option.series.push({ xAxisIndex: index, yAxisIndex: index, clip: true, ...series });
  }

  /** Says what the newest panel shows. */
  drew(label, points, more) {
    Object.assign(this.states.at(-1), more).series.push({ label, points });
  }

  legend(data, place) {
    this.option.legend.push({
      type: 'scroll',
      data,
      top: 0,
      left: 0,
      itemWidth: 18,
      itemHeight: 12,
      textStyle: { color: colour('fg'), fontSize: 11.5, lineHeight: 18 },
      inactiveColor: colour('line'),
      pageTextStyle: { color: colour('muted') },
      pageIconColor: colour('link'),
      ...place,
    });
  }

  /** Rules, bands and levels of the newest panel: an empty series that carries ECharts' marks. */
  mark({ rules = [], bands = [], levels = [] }) {
    if (!rules.length && !bands.length && !levels.length) return;
    const label = (text, more) => ({
      color: colour('muted'),
      fontSize: 11,
      show: Boolean(text),
      formatter: () => text,
      ...more,
    });
    const upright = { align: 'left', verticalAlign: 'top', padding: [3, 0, 0, 5] };
    const lying = { align: 'right', verticalAlign: 'bottom' };
    const above = { position: 'middle', distance: 2, backgroundColor: colour('bg') };
    const lines = rules.map((rule) => ({
      [rule.axis === 'y' ? 'yAxis' : 'xAxis']: rule.at,
      label: label(rule.label, {
        position: 'end',
        rotate: 0,
        distance: 0,
        ...(rule.axis === 'y' ? lying : upright),
      }),
      lineStyle: {
        color: colour(rule.colour || 'muted'),
        type: rule.type ?? 'dashed',
        width: 1.2,
      },
    }));
    const flats = levels.map(({ low, high, y, label: text }) => [
      {
        coord: [low, y],
        symbol: 'none',
        label: label(text, { ...above, color: colour('fg'), padding: [0, 3] }),
        lineStyle: { color: colour('fg'), type: 'solid', width: 2.2 },
      },
      { coord: [high, y], symbol: 'none' },
    ]);
    const said = this.bandLabels(bands);
    const areas = bands.map((band, i) => [
      {
        xAxis: band.low,
        itemStyle: { color: colour(band.colour || 'warn'), opacity: 0.18 },
        label: label(band.label, { position: 'insideTop', formatter: () => said[i] }),
      },
      { xAxis: band.high },
    ]);
    this.add({
      type: 'line',
      data: [],
      silent: true,
      z: 8,
      // Places are rounded to two decimals unless ECharts is asked for more.
      markLine: { silent: true, symbol: 'none', precision: 20, data: [...lines, ...flats] },
      markArea: { silent: true, data: areas },
    });
  }

  /** Labels of the newest panel's bands that do not cover each other, for what is in view: whole,
      else the first word (a key), else none. */
  bandLabels(bands) {
    const index = this.states.length - 1;
    const [tick, said] = [this.axes.x[index], []];
    const say = ([low, high]) => {
      const { width } = this.option.grid[index];
      const px = width / (high - low);
      let free = 0;
      bands.forEach(({ low: from, high: to, label = '' }, i) => {
        const centre = ((Math.max(from, low) + Math.min(to, high)) / 2 - low) * px;
        const half = (text) => text.length * HALF_LETTER_PX;
        const fits = (text) => centre - half(text) >= free && centre + half(text) <= width;
        said[i] = [label, label.split(' ')[0]].find(fits) ?? '';
        if (said[i]) free = centre + half(said[i]);
      });
    };
    say(this.states[index].x);
    this.axes.x[index] = (ends) => {
      say(ends);
      return tick(ends);
    };
    return said;
  }

  /** The table: columns are [label, text of a row] or [label, value of a row, its wording]; false:
      a column that is not needed. `rows`: a list, or a function that gives `n` of them. */
  table(rows, columns, n = rows.length) {
    this.numbers = { rows, columns: columns.filter(Boolean), n };
    return this;
  }
}
