// Entry: put the figures into the page, draw what comes near the window and then, when the page is
// idle, the rest (so that paper and search find all of it).

import { loadJson } from './data.js';
import { h } from './dom.js';
import { Figure, figures } from './figure.js';
import * as numbers from './format.js';
import { filterField, makeSortable } from './table.js';
import { bindTheme } from './theme.js';

const NEAR = '400px 0px';
const idle = window.requestIdleCallback ?? ((then) => setTimeout(then, 20)); // Safari has none
const find = (id) => figures.find((figure) => figure.id === id);
const all = (selector) => document.querySelectorAll(selector);

function bindPaper() {
  const root = document.documentElement;
  const show = (make) => {
    for (const { paper, panes } of figures) paper.replaceChildren(...panes.flatMap(make));
  };
  addEventListener('beforeprint', () => {
    root.dataset.printing = '1';
    show((pane) => pane.paper());
  });
  addEventListener('afterprint', () => {
    delete root.dataset.printing;
    show(() => []);
  });
}

// Cells that lead to a range or a view of a figure.
function bindLooks() {
  for (const press of all('button[data-look]')) {
    const { look, at } = press.dataset;
    const figure = find(look);
    if (!figure) continue;
    press.disabled = false;
    press.addEventListener('click', () => figure.look(at.startsWith('[') ? JSON.parse(at) : at));
  }
}

async function start() {
  bindTheme(document.getElementById('theme'), () => figures.forEach((one) => one.redraw()));
  for (const table of all('table.sortable')) makeSortable(table);
  for (const place of all('[data-filter]')) {
    place.prepend(filterField(place.querySelector('table'), place.dataset.filter));
  }
  const observer = new IntersectionObserver(
    (entries) => {
      for (const { target } of entries.filter((entry) => entry.isIntersecting)) {
        observer.unobserve(target);
        const figure = figures.find((one) => one.element === target);
        if (!figure.drawn) figure.draw().catch(fail);
      }
    },
    { rootMargin: NEAR },
  );
  for (const element of all('[data-index]')) {
    observer.observe(new Figure(element, await loadJson(element.dataset.index)).element);
  }
  bindLooks();
  bindPaper();
  for (const figure of figures) {
    await new Promise((resolve) => idle(resolve, { timeout: 500 }));
    if (!figure.drawn) await figure.draw();
    else await figure.busy;
  }
}

function fail(error) {
  console.error(error);
  const said = `The figures could not be drawn: ${error.message}. The tables are complete.`;
  document.querySelector('.figure')?.prepend(h('p', { class: 'warning severe' }, said));
}

window.nfslab = {
  numbers,
  /** State of every figure: what is drawn and in view. */
  get figures() {
    return figures.map((figure) => figure.state());
  },
  /** A figure by its id, for tests and for curious people. */
  figure: find,
};
window.nfslab.ready = start().catch(fail);
