// A figure of the page: title and caption are there; this adds one or two panes with drawings, its
// switches and pictures to save, the numbers of the figure as a table, and paper.

import { button, checkbox, h, uniqueId } from './dom.js';
import { count } from './format.js';
import { Pane } from './pane.js';
import { onTheme } from './theme.js';

const BESIDE_PX = 820; // panes stand beside each other from this width on
const SWITCHES = { log_choice: 'other scale (log or linear)', common: 'one scale for all' };
const KEYS_TOLD = 'Drag to zoom, double click for all; keys + − ← → 0.';

export const drawings = [];
const has = (value, key) =>
  value !== null &&
  typeof value === 'object' &&
  !ArrayBuffer.isView(value) &&
  (Boolean(value[key]) || Object.values(value).some((inner) => has(inner, key)));

function save(url, name) {
  h('a', { href: url, download: name }).click();
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
