// Figure: the runs in the order in which they were carried out. Drift of the machine, warm-up
// of a device, a competing load show here and nowhere else. Failed runs stand at the bottom.

import { checkbox, select } from '../dom.js';
import { count, quantity } from '../format.js';
import { LEFT, RIGHT } from '../layout.js';
import { linear, log, ticks } from '../scales.js';
import { colour, seriesLook } from '../theme.js';

const HEIGHT = 280;
const MOST_GROUPS = 12;
const CROSS = 'path://M0 1L1 0L5 4L9 0L10 1L6 5L10 9L9 10L5 6L1 10L0 9L4 5Z';

export function orderFigure(model) {
  const { runs } = model;
  const last = Math.max(1, ...runs.position);
  const axisKey = (a) => `axis ${a}`;
  const category = model.varying.find((a) => !model.axes[a].numeric);
  const state = {
    metric: model.primary.name, relative: model.points.length > 1,
    by: category === undefined ? model.points.length > MOST_GROUPS ? 'block' : 'point'
      : axisKey(category),
  };
  const metric = () => model.metric(state.metric);
  const relative = () => state.relative && runs.relative[state.metric];
  const scale = () => (!relative() && metric().scale === 'log' ? log : linear);
  const valueOf = (run) => (relative() ? runs.relative[state.metric].values[run]
    : model.value(state.metric, run));

  const keyOf = (run) => {
    if (state.by === 'block') return runs.block[run];
    if (state.by === 'point') return runs.point[run];
    return model.levelOf(Number(state.by.slice(5)), run);
  };
  const keyLabel = (key) => {
    if (state.by === 'block') return `block ${key + 1}`;
    if (state.by === 'point') return model.pointLabel(key);
    return model.level(Number(state.by.slice(5)), key);
  };

  function scene(width, viewport, hidden) {
    const rect = { x: LEFT, y: 14, w: width - LEFT - RIGHT, h: HEIGHT };
    const to = scale().to;
    const groups = new Map();
    const failed = [];
    const hover = [];
    const counts = { total: 0, inView: 0, what: 'runs' };
    const floor = viewport.y[0] + (viewport.y[1] - viewport.y[0]) * 0.025;
    runs.id.forEach((_, run) => {
      if (!runs.counted[run] && runs.status[run] !== 'failed') return;
      if (runs.point[run] < 0) return;
      const x = runs.position[run] + 1;
      const value = runs.counted[run] ? valueOf(run) : null;
      const key = keyOf(run);
      if (!groups.has(key)) groups.set(key, []);
      if (hidden.has(String(key))) return;
      counts.total += 1;
      const y = value === null ? floor : to(value);
      if (viewport.contains(x, y)) counts.inView += 1;
      if (value === null && runs.counted[run]) return;
      if (value === null) failed.push([x, floor]);
      else groups.get(key).push([x, y]);
      hover.push({
        x, y, lines: () => (value === null
          ? [['failed', model.pointLabel(runs.point[run])], ['', runs.reason[run].split('\n')[0]]]
          : model.runLines(metric(), run)),
      });
    });
    const keys = [...groups.keys()].sort((a, b) => a - b);
    const starts = model.block_starts.filter((b) => b.at > 0.5)
      .map((b) => ({ at: b.at + 0.5, label: '' }));
    const layers = [
      { kind: 'rules', items: starts, colour: colour('grid'), dash: [2, 3], width: 1 },
      ...keys.map((key) => {
        const look = seriesLook(key);
        return {
          kind: 'dots', points: groups.get(key), colour: look.colour, shape: look.shape, size: 7,
          opacity: 0.85,
        };
      }),
      {
        kind: 'dots', points: failed, colour: colour('bad'), size: 11, z: 7,
        shape: CROSS,
      },
    ];
    const legend = keys.length > MOST_GROUPS * 2 ? [] : keys.map((key) => ({
      key: String(key), label: keyLabel(key), look: { ...seriesLook(key), line: false },
    }));
    if (failed.length) {
      legend.push({
        fixed: true, label: `failed (${count(failed.length)})`,
        look: { colour: colour('bad'), shape: CROSS, line: false },
      });
    }
    return {
      width, height: HEIGHT + 64, counts, legend,
      panels: [{
        rect, layers, hover: { points: hover },
        x: {
          domain: viewport.x, name: 'place in the order of runs (dotted: a block begins)',
          ticks: ticks(linear, viewport.x, 10, '')
            .filter((t) => Number.isInteger(t.value) && t.value > 0),
        },
        y: {
          domain: viewport.y, nameGap: 72,
          name: relative() ? `${metric().label} / median of its point` : metric().label,
          ticks: ticks(scale(), viewport.y, 6, relative() ? '' : metric().unit),
        },
      }],
    };
  }

  return {
    id: 'order', title: 'In the order of the runs', renderer: 'svg', axes: 'xy', scene,
    domain: () => ({
      x: [0.2, last + 1.8],
      y: relative() ? relative().domain : scale() === log ? metric().log_domain : metric().domain,
    }),
    controls: (fig) => {
      const again = (key) => (value) => { state[key] = value; fig.hidden.clear(); fig.draw(); };
      return [
        select('Metric', model.metrics.map((m) => [m.name, m.label]), state.metric,
          again('metric')),
        select('Coloured by', [['point', 'point'], ['block', 'block'],
          ...model.varying.map((a) => [axisKey(a), model.axes[a].name])], state.by, again('by')),
        checkbox('relative to the median of its point', state.relative, again('relative')),
      ];
    },
    caption: () => `${metric().label} of every run${relative()
      ? ', divided by the median of its point,' : ''} in the order in which they were carried out `
      + '(seeded random order within blocks unless the experiment fixed it). A slope or a step '
      + 'means that the machine changed under the experiment.',
    table: () => ({
      columns: [
        { label: 'place', numeric: true }, { label: 'block', numeric: true }, { label: 'point' },
        { label: metric().label, numeric: true, show: (v) => quantity(v, metric().unit) },
        { label: 'status' },
      ],
      rows: runs.id.map((_, i) => [runs.position[i] + 1, runs.block[i] + 1,
        model.pointLabel(runs.point[i]), model.value(metric().name, i), runs.status[i]]),
    }),
  };
}
