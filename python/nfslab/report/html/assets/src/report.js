// The report of an experiment: which figures it has, and its table of runs.

import { Chunks, loadJson } from './data.js';
import { Figure } from './figure.js';
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

/** Puts the figures and the table of runs into the page; gives the report's name. */
export async function mountReport(place, observer) {
  const payload = await loadJson('main');
  const model = new Model(payload, new Chunks());
  window.nfslab.name = payload.name;
  place.replaceChildren();
  const made = specs(model).map((spec) => new Figure(spec));
  for (const figure of made) {
    place.append(figure.element);
    figure.observe(observer);
  }
  const evidence = made.find((f) => f.id === 'evidence');
  document.getElementById('runs').replaceChildren(...runTable(model, async (run) => {
    if (!evidence) return;
    await evidence.spec.show(evidence, run);
    evidence.element.scrollIntoView({ block: 'start' });
    evidence.box.focus({ preventScroll: true });
  }));
}
