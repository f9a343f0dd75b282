// Time frames of a run out of its point's chunk: columns on a common time base, in seconds
// since the start of the timed part.

import { column } from './data.js';

/** Times (bin centres, or the samples' own times) of a frame. */
export function times(chunk, frame) {
  if (frame.t) return column(chunk, frame.t);
  return Float64Array.from({ length: frame.n }, (_, i) => frame.t0 + (i + 0.5) * frame.dt);
}

/** The chunk of a point with its runs by index; null when it holds no series at all. */
export async function loadPoint(model, point) {
  const id = model.points[point].chunk;
  if (!id) return null;
  const chunk = await model.chunks.load(id);
  return { chunk, runs: new Map(chunk.header.runs.map((r) => [r.run, r])) };
}

/** Options for a drop-down list of points that have something to show. */
export const pointOptions = (model, has = (p) => p.chunk) => model.points
  .map((p, i) => [String(i), model.pointLabel(i), has(p)])
  .filter(([, , present]) => present).map(([key, label]) => [key, label]);

/** First point with data, as the start of a selection. */
export const firstPoint = (model) => {
  const index = model.points.findIndex((p) => p.chunk);
  return index < 0 ? null : index;
};

const FEW = 30;
/** A line over time; one of few points shows them, because a single one makes no line. */
export const timeLine = (points, look) => [
  { kind: 'line', points, ...look },
  ...(points.length > FEW ? [] : [{ kind: 'dots', points, size: 4.5, colour: look.colour }]),
];

const LIKE = 0.7;
/** The shared range of time, or its own one where a run is much shorter than others. */
export const timeDomain = (shared, own) => (own && own[1] - own[0] < LIKE * (shared[1] - shared[0])
  ? own : shared);

/** Seconds as an axis shows them. */
export const TIME_NAME = 'time since the start of the timed part';
