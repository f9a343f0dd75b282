// The frame every figure sits in: heading, what-units-n caption, controls, legend, the
// drawing, a readout, the data table below, export. A figure is drawn when it comes near the
// window, or when the page has nothing else to do; for paper it is drawn anew as SVG.
//
// spec: {id, title, renderer, axes: 'x' | 'y' | 'xy', link, caption(), controls(fig),
//        prepare(): promise, domain(): {x, y}, scene(width, viewport, hidden, paper), table(),
//        least: smallest share of x that may fill the view}

import { button, h, s, uniqueId } from './dom.js';
import { count, quantity } from './format.js';
import { pngBlob, savePng, saveSvg, svgText } from './export.js';
import { bindGestures } from './gestures.js';
import { Plot, svgOf } from './plot.js';
import { makeTable } from './table.js';
import { onTheme } from './theme.js';
import { hideTip, showTip } from './tooltip.js';
import { Viewport } from './viewport.js';

const PAPER_WIDTH = 860;
const NARROWEST = 320;
const KEYS = 'Drag a box to zoom; double click or 0 resets; arrows pan, + and − zoom; '
  + 'wheel with Ctrl.';

export const figures = [];

const symbol = (look) => {
  const mark = s('svg', { class: 'mark', viewBox: '0 0 26 12', 'aria-hidden': 'true' });
  if (look.line !== false) {
    mark.append(s('line', {
      x1: 0, x2: 26, y1: 6, y2: 6, stroke: look.colour, 'stroke-width': 2,
      'stroke-dasharray': Array.isArray(look.dash) ? look.dash.join(' ') : null,
    }));
  }
  const shapes = {
    circle: ['circle', { cx: 13, cy: 6, r: 4 }],
    rect: ['rect', { x: 9, y: 2, width: 8, height: 8 }],
    triangle: ['path', { d: 'M13 1L18 10H8Z' }], diamond: ['path', { d: 'M13 1L18 6L13 11L8 6Z' }],
    block: ['rect', { x: 2, y: 1, width: 22, height: 10 }],
  };
  const own = look.shape?.startsWith('path://');
  const [tag, properties] = own ? ['path', { d: look.shape.slice(7), transform: 'translate(8 1)' }]
    : shapes[look.shape] ?? [];
  if (tag) mark.append(s(tag, { ...properties, fill: look.colour }));
  return mark;
};

export class Figure {
  constructor(spec) {
    this.spec = spec;
    this.id = spec.id;
    this.drawn = false;
    this.scene = null;
    this.hidden = new Set();
    this.name = `${window.nfslab?.name ?? 'report'}-${spec.id}`;
    this.build();
    figures.push(this);
  }

  build() {
    const { spec } = this;
    const [heading, caption] = [uniqueId('title'), uniqueId('caption')];
    this.caption = h('p', { class: 'caption', id: caption });
    this.legend = h('div', { class: 'legend' });
    this.readout = h('span', { class: 'muted readout', 'aria-live': 'polite' });
    this.host = h('div', { class: 'host' });
    this.paper = h('div', { class: 'paper' });
    this.box = h('div', {
      class: 'plot', tabindex: 0, role: 'application', 'aria-roledescription': 'zoomable figure',
      'aria-labelledby': heading, 'aria-describedby': caption, 'aria-keyshortcuts': '+ - 0',
    }, this.host);
    this.details = h('details', { ontoggle: () => this.fillTable() },
      h('summary', {}, 'The numbers of this figure'));
    this.controls = h('div', { class: 'controls' });
    const tools = h('div', { class: 'tools' },
      button('Reset zoom', () => this.viewport?.reset()),
      button('Save SVG', () => this.scene && saveSvg(this.scene, this.name)),
      button('Save PNG', () => this.scene && savePng(this.scene, this.name)),
      this.readout, h('span', { class: 'muted keys' }, KEYS));
    this.element = h('section', { class: 'figure', id: spec.id },
      h('h3', { id: heading }, spec.title), this.caption, this.controls, this.legend,
      this.box, this.paper, tools, this.details);
    bindGestures(this.box, this.host,
      () => ({ viewport: this.viewport, scene: this.scene, axes: spec.axes ?? 'xy' }),
      (panel, px, py) => (panel ? showTip(this.host, panel, px, py) : hideTip()));
    onTheme(() => this.drawn && this.render());
    this.controls.append(...(spec.controls?.(this) ?? []));
    this.controls.hidden = !this.controls.childNodes.length;
  }

  /** Watch for the moment when it has to be drawn. */
  observe(observer) {
    observer.observe(this.element);
    new ResizeObserver(() => {
      if (this.drawn && Math.abs(this.width() - this.scene.width) > 1) this.later();
    }).observe(this.box);
  }

  width() { return Math.max(NARROWEST, Math.floor(this.box.clientWidth)); }

  /** Draw for the first time, or again after a selection changed (`refit` the domain). */
  async draw() {
    this.drawing ??= this.refresh().finally(() => { this.drawing = null; });
    return this.drawing;
  }

  async refresh() {
    await this.spec.prepare?.();
    const full = this.spec.domain();
    if (!this.viewport) this.viewport = new Viewport(full, () => this.later(), this.spec.link,
        this.spec.least);
    else this.viewport.refit(full);
    this.plot ??= new Plot(this.host, this.spec.renderer);
    this.render();
    this.drawn = true;
    this.element.dataset.drawn = '1';
    if (this.details.open) this.fillTable(true);
  }

  later() {
    if (this.waiting || !this.plot) return;
    this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.render(); });
  }

  render() {
    this.scene = this.spec.scene(this.width(), this.viewport, this.hidden);
    this.plot.draw(this.scene);
    const text = this.spec.caption(this.scene);
    this.caption.replaceChildren(...(Array.isArray(text) ? text : [text]));
    this.drawLegend();
    const { counts } = this.scene;
    const shown = (n) => (counts.unit === 'B/s' ? quantity(n, 'B') : count(n));
    const words = counts?.total === 1 ? counts.what.replace(/s\b/, '') : counts?.what;
    const what = counts?.unit === 'B/s' ? '' : ` ${words}`;
    this.readout.textContent = !counts ? '' : counts.inView === counts.total
      ? `${shown(counts.total)}${what}`
      : `${shown(counts.inView)} of ${shown(counts.total)}${what} in view`;
  }

  drawLegend() {
    const items = this.scene.legend ?? [];
    const focused = this.legend.contains(document.activeElement)
      ? document.activeElement.dataset.key : null;
    this.legend.replaceChildren(...items.map((item) => {
      const inside = [symbol(item.look), item.label];
      if (item.fixed) return h('span', { class: 'entry' }, inside);
      return h('button', {
        type: 'button', class: 'entry', 'aria-pressed': String(!this.hidden.has(item.key)),
        dataset: { key: item.key }, onclick: () => this.toggle(item.key),
        title: 'Show or hide',
      }, inside);
    }), ...(this.scene.legendExtra ?? []));
    this.legend.hidden = !this.legend.childNodes.length;
    if (focused !== null) {
      [...this.legend.children].find((e) => e.dataset.key === focused)?.focus();
    }
  }

  toggle(key) {
    if (this.hidden.has(key)) this.hidden.delete(key);
    else this.hidden.add(key);
    this.render();
  }

  fillTable(again = false) {
    if (!this.details.open || (this.details.childElementCount > 1 && !again) || !this.drawn) return;
    while (this.details.childElementCount > 1) this.details.lastChild.remove();
    const table = this.spec.table();
    this.details.append(makeTable({ ...table, label: `${this.spec.title}: numbers` }));
    if (table.note) this.details.append(h('p', { class: 'muted' }, table.note));
  }

  /** Draw as SVG for paper; the page's light colours have to be in force already. */
  print() {
    if (!this.drawn) return;
    this.scene = this.spec.scene(PAPER_WIDTH, this.viewport, this.hidden, true);
    this.paper.replaceChildren(document.importNode(svgOf(this.scene, null), true));
    this.drawLegend();
  }

  unprint() {
    this.paper.replaceChildren();
    if (this.drawn) this.render();
  }

  svgText() { return svgText(this.scene); }

  async pngSize() { return (await pngBlob(this.scene)).size; }

  /** What tests and curious people ask: what is drawn, which part is in view. */
  state() {
    const v = this.viewport;
    return {
      id: this.id, title: this.spec.title, drawn: this.drawn,
      view: v ? { x: [...v.x], y: [...v.y] } : null, full: v?.full ?? null,
      zoomed: v?.zoomed ?? false, counts: this.scene?.counts ?? null,
      panels: this.scene?.panels.map(({ rect, title }) => ({ rect, title })) ?? [],
    };
  }
}
