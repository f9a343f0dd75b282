// A figure of the page: title and caption are there; this adds its choices, one or two panes with
// the drawing, the numbers of the figure as a table, pictures to save, and paper.

import { loadDrawing } from './data.js';
import { button, checkbox, h, select, uniqueId } from './dom.js';
import { init } from './echarts.js';
import { count } from './format.js';
import { bars } from './kinds/bars.js';
import { flame } from './kinds/flame.js';
import { heat } from './kinds/heat.js';
import { lines } from './kinds/lines.js';
import { points } from './kinds/points.js';
import { stacked } from './kinds/stacked.js';
import { makeTable } from './table.js';
import { colour, onTheme } from './theme.js';
import { tooltip } from './tip.js';

const KINDS = { lines, bars, stacked, points, heat, flame };
const BESIDE_PX = 820; // panes stand beside each other from this width on
const PAPER_PX = 1040;
const ROWS_MOST = 2000;
const PNG_SCALE = 2;
const SWITCHES = { log_choice: 'other scale (log or linear)', common: 'one scale for all' };
const KEYS_TOLD = 'Drag to zoom, double click for all; keys + − ← → 0.';
const FONT = "system-ui, 'DejaVu Sans', sans-serif";
const KEYS = {
  '+': [0.2, -0.2],
  '=': [0.2, -0.2],
  '-': [-0.333, 0.333],
  ArrowLeft: [-0.15, -0.15],
  ArrowRight: [0.15, 0.15],
};

export const drawings = [];
const has = (value, key) =>
  value !== null &&
  typeof value === 'object' &&
  !ArrayBuffer.isView(value) &&
  (Boolean(value[key]) || Object.values(value).some((inner) => has(inner, key)));

function save(url, name) {
  h('a', { href: url, download: name }).click();
}

/** One drawing of the figure with the choices that lead to it. */
class Pane {
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

export class DrawnFigure {
  constructor(element, index) {
    this.element = element;
    this.index = index;
    this.id = index.id;
    this.switched = {}; // what a reader chose of SWITCHES
    this.tools = h('div', { class: 'tools' });
    this.numbers = h(
      'details',
      { class: 'numbers', ontoggle: () => this.tell() },
      h('summary', {}, 'The numbers of this figure'),
    );
    this.paperPlace = h('div', { class: 'paper' });
    const [title, caption] = [element.querySelector('h3'), element.querySelector('.caption')];
    title.id ||= uniqueId('title');
    caption.id ||= uniqueId('caption');
    this.plot = h('div', {
      class: 'plot',
      tabindex: 0,
      role: 'group',
      'aria-labelledby': title.id,
      'aria-describedby': caption.id,
      onkeydown: (event) => {
        if (event.target === this.plot) this.panes.forEach((pane) => pane.key(event));
      },
    });
    element.querySelector('.pending')?.remove();
    this.panes = index.views.length ? [new Pane(this, 0)] : [];
    this.plot.append(...this.panes.map((pane) => pane.element));
    element.append(this.plot, this.tools, this.numbers, this.paperPlace);
    if (index.left_out) {
      const all = count(index.left_out + index.views.length);
      const said = `of ${all} views of this figure are left out to stay below the size limit.`;
      element.append(h('p', { class: 'muted' }, `${count(index.left_out)} ${said}`));
    }
    if (!this.panes.length) {
      this.drawn = true;
      this.numbers.hidden = true;
      if (!index.left_out)
        this.plot.append(h('p', { class: 'muted' }, 'Nothing was recorded that could be drawn.'));
    }
    drawings.push(this);
    onTheme(() => this.redraw());
    new ResizeObserver(() => {
      if (this.drawn && this.panes.some((pane) => pane.element.clientWidth !== pane.width))
        this.redraw();
    }).observe(this.plot);
  }

  redraw() {
    return this.drawn ? Promise.all(this.panes.map((pane) => pane.draw())) : null;
  }

  async draw() {
    this.drawn = true;
    this.busy = Promise.all(this.panes.map((pane) => pane.draw()));
    await this.busy;
    this.equip();
  }

  equip() {
    if (!this.panes.length || this.tools.childNodes.length) return;
    const [pane] = this.panes;
    const tools = [
      button('Whole range', () => this.panes.forEach((one) => one.reset())),
      button('Save PNG', () => save(pane.png(), `${this.index.file}.png`)),
      button('Save SVG', () => {
        const url = URL.createObjectURL(new Blob([pane.svg()], { type: 'image/svg+xml' }));
        save(url, `${this.index.file}.svg`);
        setTimeout(() => URL.revokeObjectURL(url), 10_000);
      }),
    ];
    if (this.index.views.length > 1) {
      const press = button('Compare beside', () => this.beside(press));
      tools.push(press);
    }
    for (const [key, what] of Object.entries(SWITCHES)) {
      if (has(pane.drawing ?? {}, key)) {
        tools.unshift(
          checkbox(what, false, (on) => {
            this.switched[key] = on;
            this.redraw();
          }),
        );
      }
    }
    if (pane.built?.search) tools.unshift(this.searchField());
    this.tools.append(...tools, h('span', { class: 'muted keys' }, KEYS_TOLD));
  }

  searchField() {
    const id = uniqueId('search');
    const said = h('span', { class: 'muted', 'aria-live': 'polite' });
    const field = h('input', {
      id,
      type: 'search',
      oninput: () => {
        for (const pane of this.panes) {
          said.textContent = pane.built.search(field.value);
          pane.chart.setOption({ series: pane.built.option.series });
        }
      },
    });
    return h('span', { class: 'control' }, h('label', { for: id }, 'Find'), field, said);
  }

  /** A second pane with choices of its own, or none again. */
  async beside(press) {
    if (this.panes.length > 1) this.panes.pop().element.remove();
    else {
      const last =
        this.panes[0].at === this.index.views.length - 1 ? 0 : this.index.views.length - 1;
      this.panes.push(new Pane(this, last));
      this.plot.append(this.panes[1].element);
    }
    press.textContent = this.panes.length > 1 ? 'One only' : 'Compare beside';
    this.plot.classList.toggle(
      'beside',
      this.panes.length > 1 && this.plot.clientWidth >= BESIDE_PX,
    );
    await this.redraw();
  }

  follow(from) {
    const others = this.index.link
      ? drawings.filter((one) => one.index.link === this.index.link)
      : [this];
    for (const figure of others) {
      for (const pane of figure.panes) if (pane !== from) pane.zoomTo(from.zoom, true);
    }
  }

  /** Goes to a view (a list of choices) or a range of x, chosen elsewhere in the page. */
  async look(at) {
    if (!this.drawn) await this.draw();
    if (Array.isArray(at)) await this.panes[0].choose(at);
    else {
      const [low, high] = at.split('..').map(Number);
      const pad = (high - low) * 0.25;
      this.panes[0].zoomTo([low - pad, high + pad]);
    }
    this.element.scrollIntoView({ block: 'start' });
    this.plot.focus({ preventScroll: true });
  }

  tell() {
    this.numbers.querySelectorAll('div').forEach((old) => old.remove());
    if (this.numbers.open)
      this.numbers.append(...this.panes.filter((pane) => pane.built).map((pane) => pane.table()));
  }

  print() {
    this.paperPlace.replaceChildren(...this.panes.flatMap((pane) => pane.paper()));
  }

  unprint() {
    this.paperPlace.replaceChildren();
  }

  /** What is drawn, for tests and for curious people. */
  state() {
    return {
      id: this.id,
      drawn: Boolean(this.drawn),
      left_out: this.index.left_out,
      panes: this.panes.map((pane) => ({
        choice: pane.view.choice,
        kind: pane.drawing?.kind,
        zoom: pane.zoom,
        panels: pane.built?.states ?? [],
        rects: pane.built?.option.grid ?? [],
        problem: pane.view.problem ?? '',
      })),
    };
  }
}
