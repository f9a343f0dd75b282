// A pane of a figure: one drawing with its choices, zoom, keys, pictures and table.

import { loadDrawing } from './data.js';
import { h, select } from './dom.js';
import { init } from './echarts.js';
import { count } from './format.js';
import { bars } from './kinds/bars.js';
import { flame } from './kinds/flame.js';
import { heat } from './kinds/heat.js';
import { lines } from './kinds/lines.js';
import { points } from './kinds/points.js';
import { stacked } from './kinds/stacked.js';
import { makeTable } from './table.js';
import { colour } from './theme.js';
import { tooltip } from './tip.js';

const KINDS = { lines, bars, stacked, points, heat, flame };
const PAPER_PX = 1040;
const ROWS_MOST = 2000;
const PNG_SCALE = 2;
const FONT = "system-ui, 'DejaVu Sans', sans-serif";
const KEYS = {
  '+': [0.2, -0.2],
  '=': [0.2, -0.2],
  '-': [-0.333, 0.333],
  ArrowLeft: [-0.15, -0.15],
  ArrowRight: [0.15, 0.15],
};

/** One drawing of the figure with the choices that lead to it. */
export class Pane {
  constructor(figure, at) {
    this.figure = figure;
    this.at = at;
    this.choices = h('div', { class: 'controls' });
    this.caption = h('p', { class: 'caption' });
    this.host = h('div', { class: 'host' });
    this.element = h('div', { class: 'pane' }, this.choices, this.caption, this.host);
    this.shown = new Map(); // ends in view, by axis
    this.zoom = null;
    this.offer();
  }

  get view() {
    return this.figure.index.views[this.at];
  }

  /** Lists of choices; an entry leads to the view that differs least in the others. */
  offer() {
    const { choices, views } = this.figure.index;
    this.choices.replaceChildren(
      ...choices.flatMap((label, k) => {
        const values = [...new Set(views.map((view) => view.choice[k]))];
        if (values.length < 2) return [];
        return select(
          label,
          values.map((v) => [v, v]),
          this.view.choice[k],
          (value) => {
            const wanted = this.view.choice.with(k, value);
            this.choose(wanted, k);
          },
        );
      }),
    );
  }

  choose(wanted, fixed = 0) {
    const like = (view) =>
      (view.choice[fixed] === wanted[fixed] ? 100 : 0) +
      view.choice.reduce((n, v, i) => n + (v === wanted[i] ? 1 : 0), 0);
    const { views } = this.figure.index;
    this.at = views.reduce((best, view, i) => (like(view) > like(views[best]) ? i : best), 0);
    this.offer();
    this.busy = this.draw();
    return this.busy;
  }

  async load() {
    const { view } = this;
    if (view.data && this.loaded !== view.data) {
      this.drawing = await loadDrawing(view.data);
      this.loaded = view.data;
    }
    return view.data ? this.drawing : null;
  }

  build(width) {
    const context = {
      width,
      switched: this.figure.switched,
      view: (axis, index) => this.shown.get(`${axis}${index}`),
    };
    const built = KINDS[this.drawing.kind](this.drawing, context);
    const { option, zoomY } = built;
    const xs = option.xAxis.map((_, i) => i);
    const ys = option.yAxis
      .map((_, i) => i)
      .filter((i) => option.yAxis[i].type !== 'category' && option.yAxis[i].show !== false);
    const inside = {
      type: 'inside',
      filterMode: 'none',
      zoomOnMouseWheel: 'ctrl',
      moveOnMouseMove: 'shift',
      moveOnMouseWheel: false,
    };
    option.dataZoom = [
      { ...inside, id: 'x', xAxisIndex: xs },
      ...(zoomY && ys.length ? [{ ...inside, id: 'y', yAxisIndex: ys }] : []),
    ];
    option.toolbox = {
      itemSize: 0,
      show: true,
      right: -40,
      feature: {
        dataZoom: {
          filterMode: 'none',
          xAxisIndex: xs,
          yAxisIndex: zoomY && ys.length ? ys : 'none',
        },
      },
    };
    option.tooltip = tooltip(option.tooltip);
    Object.assign(option, {
      animation: false,
      textStyle: { fontFamily: FONT },
      backgroundColor: 'transparent',
    });
    return built;
  }

  async draw() {
    const drawing = await this.load();
    const { view } = this;
    this.caption.textContent = [view?.caption, view?.problem].filter(Boolean).join(' ');
    this.host.hidden = !drawing;
    if (!drawing) return;
    this.shown.clear();
    this.zoom = null;
    this.width = this.element.clientWidth;
    this.built = this.build(this.width);
    if (this.built.remark) this.caption.textContent += ` ${this.built.remark}`;
    this.host.style.height = `${this.built.height}px`;
    if (!this.chart) this.begin();
    this.chart.resize();
    this.chart.setOption(this.built.option, { notMerge: true });
    this.brush();
  }

  /** A drag selects what to zoom to, at once and always. */
  brush() {
    this.chart.dispatchAction({
      type: 'takeGlobalCursor',
      key: 'dataZoomSelect',
      dataZoomSelectActive: true,
    });
  }

  begin() {
    this.chart = init(this.host, null, { renderer: 'canvas', height: this.built.height });
    this.chart.on('datazoom', () => this.zoomed());
    this.chart.on('click', (event) => {
      const range = this.built.fit?.(event);
      if (range) this.zoomTo(range);
    });
    this.chart.getZr().on('dblclick', () => this.reset());
  }

  /** After a zoom: labels follow what is in view, linked figures follow in x. */
  zoomed() {
    const { xAxis, yAxis, dataZoom } = this.chart.getOption();
    for (const [axis, list] of Object.entries({ x: xAxis, y: yAxis })) {
      list.forEach((_, i) => {
        const { scale } = this.chart.getModel().getComponent(`${axis}Axis`, i).axis;
        this.shown.set(`${axis}${i}`, scale.getExtent());
      });
    }
    const found = dataZoom.find((zoom) => zoom.id === 'x');
    const whole = found.start <= 0 && found.end >= 100;
    this.zoom = whole ? null : [found.startValue, found.endValue];
    if (!this.following) this.figure.follow(this);
  }

  /** Shows a part of x, in its unit; null: all. */
  zoomTo(range, following = false) {
    this.following = following;
    this.chart?.dispatchAction(
      range
        ? { type: 'dataZoom', dataZoomId: 'x', startValue: range[0], endValue: range[1] }
        : {
            type: 'dataZoom',
            batch: ['x', 'y'].map((id) => ({ dataZoomId: id, start: 0, end: 100 })),
          },
    );
    this.following = false;
  }

  reset() {
    this.zoomTo(null);
  }

  key(event) {
    const move = KEYS[event.key];
    if (!this.chart || (!move && event.key !== '0')) return;
    event.preventDefault();
    if (event.key === '0') {
      this.reset();
      return;
    }
    const { start, end } = this.chart.getOption().dataZoom.find((zoom) => zoom.id === 'x');
    const span = end - start;
    let [a, b] = [start + move[0] * span, end + move[1] * span];
    if (move[0] === move[1]) {
      const over = Math.max(0, b - 100) || Math.min(0, a);
      [a, b] = [a - over, b - over];
    }
    this.chart.dispatchAction({
      type: 'dataZoom',
      dataZoomId: 'x',
      start: Math.max(0, a),
      end: Math.min(100, b),
    });
  }

  svg(width = this.width) {
    const built = this.build(width);
    const chart = init(null, null, { renderer: 'svg', ssr: true, width, height: built.height });
    chart.setOption({ ...built.option, toolbox: undefined, backgroundColor: colour('bg') });
    const text = chart.renderToSVGString();
    chart.dispose();
    return text;
  }

  png() {
    return this.chart.getDataURL({
      type: 'png',
      pixelRatio: PNG_SCALE,
      backgroundColor: colour('bg'),
    });
  }

  paper() {
    if (!this.chart) return [];
    if (this.built.heavy) return [h('img', { src: this.png(), alt: '' })];
    const parsed = new DOMParser().parseFromString(this.svg(PAPER_PX), 'image/svg+xml');
    return [document.importNode(parsed.documentElement, true)];
  }

  table() {
    const { columns, rows, n } = this.built.table();
    const some = [];
    for (const row of rows()) {
      if (some.length >= ROWS_MOST) break;
      some.push(row);
    }
    return h(
      'div',
      {},
      makeTable({ columns, rows: some, label: `Numbers of ${this.figure.index.title}` }),
      n > some.length &&
        h('p', { class: 'muted' }, `The first ${count(some.length)} of ${count(n)} rows.`),
    );
  }
}
