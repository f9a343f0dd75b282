// A pane of a figure: one drawing with the choices that lead to it, zoom, keys and pictures.

import { loadDrawing } from './data.js';
import { h, select } from './dom.js';
import { init } from './echarts.js';
import { flame } from './kinds/flame.js';
import { heat } from './kinds/heat.js';
import { lines } from './kinds/lines.js';
import { points } from './kinds/points.js';
import { bars, stacked } from './kinds/rows.js';
import { colour } from './theme.js';

const KINDS = { lines, bars, stacked, points, heat, flame };
const PAPER_PX = 1040;
const PNG_SCALE = 2;
const KEYS = {
  '+': [0.2, -0.2],
  '=': [0.2, -0.2],
  '-': [-0.333, 0.333],
  ArrowLeft: [-0.15, -0.15],
  ArrowRight: [0.15, 0.15],
};
const INSIDE = {
  type: 'inside',
  filterMode: 'none',
  zoomOnMouseWheel: 'ctrl',
  moveOnMouseMove: 'shift',
  moveOnMouseWheel: false,
};

export class Pane {
  constructor(figure, at) {
    this.figure = figure;
    this.at = at;
    this.choices = h('div', { class: 'controls' });
    this.caption = h('p', { class: 'caption' });
    this.host = h('div', { class: 'host' });
    this.element = h('div', { class: 'pane' }, this.choices, this.caption, this.host);
    this.offer();
  }

  get view() {
    return this.figure.index.views[this.at];
  }

  /** Lists of choices; an entry leads to the view that differs least in the others. */
  offer() {
    const { choices, views } = this.figure.index;
    const lists = choices.map((label, k) => {
      const values = [...new Set(views.map((view) => view.choice[k]))];
      const change = (value) => this.choose(this.view.choice.with(k, value), k);
      return values.length > 1 && select(label, values, this.view.choice[k], change);
    });
    const at = [...this.choices.children].findIndex((one) => one.contains(document.activeElement));
    this.choices.replaceChildren(...lists.filter(Boolean));
    this.choices.children[at]?.querySelector('select').focus();
  }

  choose(wanted, fixed = 0) {
    const like = ({ choice }) =>
      (choice[fixed] === wanted[fixed] ? 100 : 0) +
      choice.filter((v, i) => v === wanted[i]).length;
    const { views } = this.figure.index;
    this.at = views.reduce((best, view, i) => (like(view) > like(views[best]) ? i : best), 0);
    this.offer();
    this.busy = this.draw();
    return this.busy;
  }

  /** The drawing as a chart of that width; a drag and the wheel zoom it. */
  build(width) {
    const built = KINDS[this.drawing.kind](this.drawing, width, this.figure.switched);
    const { xAxis, yAxis } = built.option;
    const ys = [...yAxis.keys()].filter(
      (i) => built.zoomY && yAxis[i].type !== 'category' && yAxis[i].show !== false,
    );
    const reach = { xAxisIndex: [...xAxis.keys()], yAxisIndex: ys.length ? ys : 'none' };
    built.option.dataZoom = [
      { ...INSIDE, id: 'x', xAxisIndex: reach.xAxisIndex },
      ...(ys.length ? [{ ...INSIDE, id: 'y', yAxisIndex: ys }] : []),
    ];
    built.option.toolbox = {
      itemSize: 0,
      right: -40,
      feature: { dataZoom: { filterMode: 'none', ...reach } },
    };
    return built;
  }

  async draw() {
    const { view } = this;
    if (view.data && this.loaded !== view.data) {
      this.drawing = await loadDrawing(view.data);
      this.loaded = view.data;
    }
    this.host.hidden = !view.data;
    this.zoom = null;
    this.width = this.element.clientWidth;
    if (view.data) this.show();
    const said = [view.caption, view.problem, view.data && this.built.remark];
    this.caption.textContent = said.filter(Boolean).join(' ');
  }

  show() {
    this.built = this.build(this.width);
    this.host.style.height = `${this.built.height}px`;
    if (!this.chart) this.begin();
    this.chart.resize();
    this.chart.setOption(this.built.option, { notMerge: true });
    this.chart.dispatchAction({
      type: 'takeGlobalCursor',
      key: 'dataZoomSelect',
      dataZoomSelectActive: true, // a drag selects what to zoom to, at once and always
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

  /** What is in view of x: in per cent of all of it, and in its unit. */
  inView() {
    return this.chart.getOption().dataZoom.find((zoom) => zoom.id === 'x');
  }

  /** After a zoom: ticks follow what is in view, linked figures follow in x. */
  zoomed() {
    const ticks = (key) =>
      this.built.axes[key].map((of, i) =>
        of(this.chart.getModel().getComponent(`${key}Axis`, i).axis.scale.getExtent()),
      );
    this.chart.setOption({ xAxis: ticks('x'), yAxis: ticks('y') });
    const { start, end, startValue, endValue } = this.inView();
    this.zoom = start <= 0 && end >= 100 ? null : [startValue, endValue];
    if (!this.following) this.figure.follow(this);
  }

  /** Shows a part of x, in its unit; null: all. */
  zoomTo(range, following = false) {
    this.following = following;
    const all = ['x', 'y'].map((id) => ({ dataZoomId: id, start: 0, end: 100 }));
    const part = range && [{ dataZoomId: 'x', startValue: range[0], endValue: range[1] }];
    this.chart?.dispatchAction({ type: 'dataZoom', batch: part ?? all });
    this.following = false;
  }

  reset() {
    this.zoomTo(null);
  }

  key(event) {
    const move = KEYS[event.key];
    if (!this.chart || (!move && event.key !== '0')) return;
    event.preventDefault();
    if (!move) {
      this.reset();
      return;
    }
    const { start, end } = this.inView();
    let [a, b] = move.map((share, i) => [start, end][i] + share * (end - start));
    if (move[0] === move[1]) {
      const over = Math.max(0, b - 100) || Math.min(0, a);
      [a, b] = [a - over, b - over];
    }
    const part = { dataZoomId: 'x', start: Math.max(0, a), end: Math.min(100, b) };
    this.chart.dispatchAction({ type: 'dataZoom', ...part });
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
    const look = { pixelRatio: PNG_SCALE, backgroundColor: colour('bg') };
    return this.chart.getDataURL({ type: 'png', ...look });
  }

  paper() {
    if (!this.chart) return [];
    if (this.built.heavy) return [h('img', { src: this.png(), alt: '' })];
    const parsed = new DOMParser().parseFromString(this.svg(PAPER_PX), 'image/svg+xml');
    return [document.importNode(parsed.documentElement, true)];
  }

  /** What is drawn, for tests and for curious people. */
  state() {
    return {
      choice: this.view.choice,
      kind: this.drawing?.kind,
      zoom: this.zoom,
      panels: this.built?.states ?? [],
      rects: this.built?.option.grid ?? [],
      problem: this.view.problem ?? '',
    };
  }
}
