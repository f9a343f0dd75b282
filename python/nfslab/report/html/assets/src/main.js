// Entry: decode the payload, put the figures into the page, draw what comes near the window
// and then, when the page is idle, the rest (so that paper and search find all of it).

import { Chunks, loadJson } from './data.js';
import { h } from './dom.js';
import { Figure, figures } from './figure.js';
import { evidenceFigure } from './figures/evidence.js';
import { heatmapFigure } from './figures/heatmap.js';
import { metricFigure } from './figures/metric.js';
import { orderFigure } from './figures/order.js';
import { percentilesFigure } from './figures/percentiles.js';
import { pointsFigure } from './figures/points.js';
import { ratioFigure } from './figures/ratio.js';
import { referenceFigure } from './figures/reference.js';
import { timelineFigure } from './figures/timeline.js';
import { Model } from './model.js';
import { runTable } from './runs.js';
import { makeSortable } from './table.js';
import { bindTheme } from './theme.js';
import { hideTip } from './tooltip.js';

const NEAR = '400px 0px';

function specs(model) {
  const list = [];
  if (model.metrics.length && model.points.length) {
    if (model.facets.x >= 0) list.push(metricFigure(model));
    else list.push(pointsFigure(model));
  }
  if (Object.keys(model.comparisons.rows).length) list.push(ratioFigure(model));
  if (model.reference) list.push(referenceFigure(model));
  if (model.time.rates.length) list.push(timelineFigure(model));
  if (model.latency.kinds.length) list.push(percentilesFigure(model));
  if (model.latency.heat_kinds.length) list.push(heatmapFigure(model));
  if (model.evidence.panels.length) list.push(evidenceFigure(model));
  if (model.metrics.length && model.runs.id.length > 1) list.push(orderFigure(model));
  return list;
}

function bindPaper() {
  const root = document.documentElement;
  addEventListener('beforeprint', () => {
    root.dataset.printing = '1';
    hideTip();
    for (const figure of figures) figure.print();
  });
  addEventListener('afterprint', () => {
    delete root.dataset.printing;
    for (const figure of figures) figure.unprint();
  });
}

const idle = () => new Promise((resolve) => {
  if ('requestIdleCallback' in window) requestIdleCallback(resolve, { timeout: 500 });
  else setTimeout(resolve, 20);
});

async function start() {
  bindTheme(document.getElementById('theme'));
  for (const table of document.querySelectorAll('table.sortable')) makeSortable(table);
  const payload = await loadJson('main');
  const chunks = new Chunks();
  const model = new Model(payload, chunks);
  window.nfslab.name = payload.name;
  const place = document.getElementById('figures');
  place.replaceChildren();
  const observer = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      observer.unobserve(entry.target);
      const figure = figures.find((f) => f.element === entry.target);
      if (!figure.drawn) figure.draw().catch(fail);
    }
  }, { rootMargin: NEAR });
  for (const spec of specs(model)) {
    const figure = new Figure(spec);
    place.append(figure.element);
    figure.observe(observer);
  }
  const evidence = figures.find((f) => f.id === 'evidence');
  document.getElementById('runs').replaceChildren(...runTable(model, async (run) => {
    if (!evidence) return;
    await evidence.spec.show(evidence, run);
    evidence.element.scrollIntoView({ block: 'start' });
    evidence.box.focus({ preventScroll: true });
  }));
  bindPaper();
  for (const figure of figures) {
    await idle();
    if (!figure.drawn) await figure.draw();
  }
}

function fail(error) {
  console.error(error);
  document.getElementById('figures').prepend(h('p', { class: 'warning severe' },
    `The figures could not be drawn: ${error.message}. The tables above are complete.`));
}

window.nfslab = {
  name: '',
  /** State of every figure: id, drawn, what is in view. */
  get figures() { return figures.map((f) => f.state()); },
  /** A figure by its id, for tests and for curious people. */
  figure: (id) => figures.find((f) => f.id === id),
};
window.nfslab.ready = start().catch(fail);
