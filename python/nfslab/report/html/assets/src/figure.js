// A figure of the page: title and caption are there; this adds one or two panes with drawings, its
// switches and pictures to save, the numbers of the figure as a table, and paper.

import { button, h, labelled, uniqueId } from './dom.js';
import { count } from './format.js';
import { Pane } from './pane.js';
import { makeTable } from './table.js';

const BESIDE_PX = 820; // panes stand beside each other from this width on
const ROWS_MOST = 2000;
const SWITCHES = { log_choice: 'log or linear scale', common: 'one scale for all' };
const KEYS_TOLD = 'Drag to zoom, double click to reset; keys + − ← → 0.';

export const figures = [];

const has = (value, key) =>
  value !== null &&
  typeof value === 'object' &&
  !ArrayBuffer.isView(value) &&
  (Boolean(value[key]) || Object.values(value).some((inner) => has(inner, key)));

const muted = (...text) => h('p', { class: 'muted' }, ...text);

export class Figure {
  constructor(element, index) {
    this.element = element;
    this.index = index;
    this.id = index.id;
    this.switched = {}; // what a reader chose of SWITCHES
    this.panes = index.views.length ? [new Pane(this, 0)] : [];
    this.drawn = !this.panes.length;
    this.tools = h('div', { class: 'tools' });
    this.numbers = h(
      'details',
      { class: 'numbers', ontoggle: () => this.tell() },
      h('summary', {}, 'The numbers of this figure'),
    );
    this.numbers.hidden = this.drawn;
    this.paper = h('div', { class: 'paper' });
    const [title, caption] = [element.querySelector('h3'), element.querySelector('.caption')];
    title.id ||= uniqueId('title');
    caption.id ||= uniqueId('caption');
    this.plot = h(
      'div',
      {
        ...{ class: 'plot', tabindex: 0, role: 'group' },
        ...{ 'aria-labelledby': title.id, 'aria-describedby': caption.id },
        onkeydown: (event) => {
          if (event.target === this.plot) this.panes.forEach((pane) => pane.key(event));
        },
      },
      this.panes.map((pane) => pane.element),
    );
    element.querySelector('.pending')?.remove();
    element.append(this.plot, this.tools, this.numbers, this.paper);
    const { left_out: out } = index;
    if (out) {
      const all = count(out + index.views.length);
      const said = `of ${all} views of this figure are left out to stay below the size limit.`;
      element.append(muted(`${count(out)} ${said}`));
    } else if (this.drawn) this.plot.append(muted('Nothing was recorded that could be drawn.'));
    figures.push(this);
    new ResizeObserver(() => {
      if (this.panes.some((pane) => pane.element.clientWidth !== pane.width)) this.redraw();
    }).observe(this.plot);
  }

  redraw() {
    return this.drawn ? Promise.all(this.panes.map((pane) => pane.draw())) : null;
  }

  async draw() {
    this.drawn = true;
    this.busy = this.redraw();
    await this.busy;
    if (this.panes.length && !this.tools.childNodes.length) this.equip(this.panes[0]);
  }

  equip(pane) {
    const save = (url, kind) =>
      h('a', { href: url, download: `${this.index.file}.${kind}` }).click();
    const beside = button('Side by side', () => this.beside(beside));
    const boxes = Object.entries(SWITCHES)
      .filter(([key]) => has(pane.drawing ?? {}, key))
      .map(([key, what]) => {
        const box = h('input', {
          type: 'checkbox',
          onchange: () => {
            this.switched[key] = box.checked;
            this.redraw();
          },
        });
        return labelled(what, box, true);
      });
    const tools = [
      pane.built?.search && this.searchField(),
      ...boxes,
      button('Reset zoom', () => this.panes.forEach((one) => one.reset())),
      button('Save PNG', () => save(pane.png(), 'png')),
      button('Save SVG', () => {
        const url = URL.createObjectURL(new Blob([pane.svg()], { type: 'image/svg+xml' }));
        save(url, 'svg');
        setTimeout(() => URL.revokeObjectURL(url), 10_000);
      }),
      this.index.views.length > 1 && beside,
      h('span', { class: 'muted keys' }, KEYS_TOLD),
    ];
    this.tools.append(...tools.filter(Boolean));
  }

  searchField() {
    const said = h('span', { class: 'muted', 'aria-live': 'polite' });
    const search = () => {
      for (const { built, chart } of this.panes) {
        said.textContent = built.search(field.value);
        chart.setOption({ series: built.option.series });
      }
    };
    const field = h('input', { type: 'search', oninput: search });
    const control = labelled('Find', field);
    control.append(said);
    return control;
  }

  /** A second pane with choices of its own, or none again. */
  async beside(press) {
    if (this.panes.length > 1) this.panes.pop().element.remove();
    else {
      const { choices, views } = this.index;
      const k = Math.max(choices.indexOf('Point'), 0);
      const mine = views[this.panes[0].at].choice[k];
      const other = views.findIndex(({ choice }) => choice[k] !== mine);
      this.panes.push(new Pane(this, other < 0 ? views.length - 1 : other));
      this.plot.append(this.panes[1].element);
    }
    const two = this.panes.length > 1;
    press.textContent = two ? 'One only' : 'Side by side';
    this.plot.classList.toggle('beside', two && this.plot.clientWidth >= BESIDE_PX);
    await this.redraw();
  }

  /** Panes of this figure and of those linked with it show the same part of x. */
  follow(from) {
    const { link } = this.index;
    const others = figures.filter((one) => one === this || (link && one.index.link === link));
    for (const pane of others.flatMap((figure) => figure.panes)) {
      if (pane !== from) pane.zoomTo(from.zoom, true);
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
    if (!this.numbers.open) return;
    const drawn = this.panes.flatMap((pane) => pane.built ?? []);
    const label = `Numbers of ${this.index.title}`;
    this.numbers.append(...drawn.map(({ numbers }) => makeTable(numbers, ROWS_MOST, label)));
  }

  /** What is drawn, for tests and for curious people. */
  state() {
    const { id, drawn, index, panes } = this;
    return { id, drawn, left_out: index.left_out, panes: panes.map((pane) => pane.state()) };
  }
}
