// Entry: put the figures into the page, draw what comes near the window and then, when the page is
// idle, the rest (so that paper and search find all of it).

import { loadJson } from './data.js';
import { h } from './dom.js';
import { DrawnFigure, drawings } from './drawing.js';
import * as numbers from './format.js';
import { filterField, makeSortable } from './table.js';
import { bindTheme } from './theme.js';

const NEAR = '400px 0px';

function bindPaper() {
  const root = document.documentElement;
  addEventListener('beforeprint', () => {
    root.dataset.printing = '1';
    for (const figure of drawings) figure.print();
  });
  addEventListener('afterprint', () => {
    delete root.dataset.printing;
    for (const figure of drawings) figure.unprint();
  });
}

// Cells that lead to a range or a view of a figure.
function bindLooks() {
  for (const press of document.querySelectorAll('button[data-look]')) {
    const figure = drawings.find((f) => f.id === press.dataset.look);
    if (!figure) continue;
    const { at } = press.dataset;
    press.disabled = false;
    press.addEventListener('click', () => figure.look(at.startsWith('[') ? JSON.parse(at) : at));
  }
}

const idle = () =>
  new Promise((resolve) => {
    if ('requestIdleCallback' in window) requestIdleCallback(resolve, { timeout: 500 });
    else setTimeout(resolve, 20);
  });

async function start() {
  bindTheme(document.getElementById('theme'));
  for (const table of document.querySelectorAll('table.sortable')) makeSortable(table);
  for (const place of document.querySelectorAll('[data-filter]')) {
    place.prepend(filterField(place.querySelector('table'), place.dataset.filter));
  }
  const observer = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (!entry.isIntersecting) continue;
        observer.unobserve(entry.target);
        const figure = drawings.find((f) => f.element === entry.target);
        if (!figure.drawn) figure.draw().catch(fail);
      }
    },
    { rootMargin: NEAR },
  );
  for (const element of document.querySelectorAll('[data-index]')) {
    const figure = new DrawnFigure(element, await loadJson(element.dataset.index));
    observer.observe(figure.element);
  }
  bindLooks();
  bindPaper();
  for (const figure of drawings) {
    await idle();
    if (!figure.drawn) await figure.draw();
    else await figure.busy;
  }
}

function fail(error) {
  console.error(error);
  document
    .querySelector('.figure, [data-figure]')
    ?.prepend(
      h(
        'p',
        { class: 'warning severe' },
        `The figures could not be drawn: ${error.message}. The tables of this page are complete.`,
      ),
    );
}

window.nfslab = {
  numbers,
  /** State of every figure: what is drawn and in view. */
  get figures() {
    return drawings.map((f) => f.state());
  },
  /** A figure by its id, for tests and for curious people. */
  figure: (id) => drawings.find((f) => f.id === id),
};
window.nfslab.ready = start().catch(fail);
