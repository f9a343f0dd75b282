// Captures' figures: each [data-capture] element names its payload and the figure that belongs
// there. Buttons with a time range ("closer look") zoom all figures of their captures.

import { Chunks, loadJson } from '../data.js';
import { Figure } from '../figure.js';
import { accessesFigure } from '../figures/accesses.js';
import { callsFigure } from '../figures/calls.js';
import { latenciesFigure } from '../figures/latencies.js';
import { flameFigure } from '../figures/flame.js';
import { achievedFigure, responseFigure } from '../figures/load.js';
import { rpcstatFigure } from '../figures/rpcstat.js';
import { splitFigure } from '../figures/split.js';
import { syncPercentilesFigure, syncsFigure } from '../figures/syncs.js';
import { bandLegend } from './time.js';

const FIGURES = {
  calls: callsFigure, rpcstat: rpcstatFigure, latencies: latenciesFigure, split: splitFigure,
  accesses: accessesFigure, flame: flameFigure, syncs: syncsFigure,
  'sync-percentiles': syncPercentilesFigure,
  'load-achieved': achievedFigure, 'load-response': responseFigure,
};

async function loadModel(id) {
  const payload = await loadJson(id);
  return {
    ...payload, chunks: new Chunks(), link: `time of ${id}`,
    bandLegend: () => bandLegend(payload.captures),
  };
}

function bindCloser(id, made) {
  for (const press of document.querySelectorAll(`button[data-closer="${CSS.escape(id)}"]`)) {
    const range = [Number(press.dataset.from), Number(press.dataset.to)];
    press.hidden = false;
    press.addEventListener('click', async () => {
      const figure = made.calls ?? made.rpcstat;
      if (!figure.viewport) await figure.draw();
      const [low, high] = figure.viewport.full.x;
      const pad = (range[1] - range[0]) * 0.25;
      figure.viewport.set([Math.max(low, range[0] - pad), Math.min(high, range[1] + pad)], null);
      figure.element.scrollIntoView({ block: 'start' });
      figure.box.focus({ preventScroll: true });
    });
  }
}

/** Puts all captures' figures into the page. */
export async function mountCaptures(observer) {
  const places = new Map();
  for (const place of document.querySelectorAll('[data-capture]')) {
    const id = place.dataset.capture;
    if (!places.has(id)) places.set(id, []);
    places.get(id).push(place);
  }
  for (const [id, list] of places) {
    const model = await loadModel(id);
    window.nfslab.name ||= model.name;
    const made = {};
    for (const place of list) {
      const name = place.dataset.figure;
      const figure = new Figure(FIGURES[name](model, places.size > 1 ? `${id}-${name}` : name));
      place.replaceChildren(figure.element);
      figure.observe(observer);
      made[name] = figure;
    }
    bindCloser(id, made);
  }
}
