// Entry: decode the payloads, put the figures into the page, draw what comes near the window
// and then, when the page is idle, the rest (so that paper and search find all of it).
//
// A page holds an experiment's figures (#figures), captures' figures ([data-capture]), or both.

import { mountCaptures } from './capture/mount.js';
import { h } from './dom.js';
import { loadJson } from './data.js';
import { DrawnFigure, drawings } from './drawing.js';
import { figures } from './figure.js';
import { mountReport } from './report.js';
import { makeSortable } from './table.js';
import { bindTheme } from './theme.js';
import { hideTip } from './tooltip.js';

const NEAR = '400px 0px';

function bindPaper() {
  const root = document.documentElement;
  addEventListener('beforeprint', () => {
    root.dataset.printing = '1';
    hideTip();
    for (const figure of figures) figure.print();
    for (const figure of drawings) figure.print(true);
  });
  addEventListener('afterprint', () => {
    delete root.dataset.printing;
    for (const figure of figures) figure.unprint();
    for (const figure of drawings) figure.print(false);
  });
}

const idle = () => new Promise((resolve) => {
  if ('requestIdleCallback' in window) requestIdleCallback(resolve, { timeout: 500 });
  else setTimeout(resolve, 20);
});

// Cells that lead to a range or a view of a figure.
function bindLooks() {
  for (const press of document.querySelectorAll('button[data-look]')) {
    const figure = drawings.find((f) => f.id === press.dataset.look);
    if (!figure) continue;
    const { at } = press.dataset;
    press.hidden = false;
    press.addEventListener('click', () => figure.look(at.startsWith('[') ? JSON.parse(at) : at));
  }
}

async function start() {
  bindTheme(document.getElementById('theme'));
  for (const table of document.querySelectorAll('table.sortable')) makeSortable(table);
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      observer.unobserve(entry.target);
      const figure = [...figures, ...drawings].find((f) => f.element === entry.target);
      if (!figure.drawn) figure.draw().catch(fail);
    }
  }, { rootMargin: NEAR });
  const place = document.getElementById('figures');
  if (place) await mountReport(place, observer);
  await mountCaptures(observer);
  for (const element of document.querySelectorAll('[data-index]')) {
    const figure = new DrawnFigure(element, await loadJson(element.dataset.index));
    observer.observe(figure.element);
  }
  bindLooks();
  bindPaper();
  for (const figure of [...figures, ...drawings]) {
    await idle();
    if (!figure.drawn) await figure.draw();
  }
}

function fail(error) {
  console.error(error);
  const place = document.getElementById('figures') ?? document.querySelector('[data-figure]');
  place?.prepend(h('p', { class: 'warning severe' },
    `The figures could not be drawn: ${error.message}. The tables of this page are complete.`));
}

window.nfslab = {
  name: '',
  /** State of every figure: id, drawn, what is in view. */
  get figures() { return [...figures, ...drawings].map((f) => f.state()); },
  /** A figure by its id, for tests and for curious people. */
  figure: (id) => [...figures, ...drawings].find((f) => f.id === id),
};
window.nfslab.ready = start().catch(fail);
