// The payload with the look-ups that several figures need. It selects and arranges; it never
// computes a statistic: medians, intervals and ratios come from Python as they are shown.

import { interval, number, quantity } from './format.js';

export class Model {
  constructor(payload, chunks) {
    Object.assign(this, payload);
    this.chunks = chunks;
    this.runsOf = this.points.map(() => []);
    const { runs } = payload;
    runs.id.forEach((_, i) => { if (runs.counted[i]) this.runsOf[runs.point[i]].push(i); });
    for (const list of this.runsOf) list.sort((a, b) => runs.block[a] - runs.block[b]);
  }

  metric(name) { return this.metrics.find((m) => m.name === name); }

  get primary() { return this.metrics.find((m) => m.primary) ?? this.metrics[0]; }

  /** Axes that really vary (two levels or more). */
  get varying() {
    return this.axes.map((_, i) => i).filter((i) => this.axes[i].levels.length > 1);
  }

  axisTitle(i) {
    const { name, unit } = this.axes[i];
    return unit ? `${name} (${unit})` : name;
  }

  level(axis, k) { return this.axes[axis].shown[k]; }

  /** Level of a run on an axis; null for a run of a point that is not planned. */
  levelOf(axis, run) {
    const point = this.runs.point[run];
    return point < 0 ? null : this.points[point].levels[axis];
  }

  /** "placement log apart · clients 10", leaving out the axes in `without`. */
  pointLabel(i, without = []) {
    if (i < 0) return 'not planned';
    const parts = this.varying.filter((a) => !without.includes(a)).map((a) => {
      const text = this.level(a, this.points[i].levels[a]);
      return this.axes[a].numeric ? `${this.axes[a].name} ${text}` : text;
    });
    return parts.join(' · ') || this.points[i].label;
  }

  value(metric, run) { return this.runs.values[metric][run]; }

  ok(run) { return this.runs.status[run] === 'ok'; }

  runLabel(run) { return `block ${this.runs.block[run] + 1}`; }

  estimateLines(metric, point) {
    const e = this.estimates[metric.name];
    return [
      [quantity(e.median[point], metric.unit), `median of ${e.n[point]} runs`],
      ['', e.low[point] === null ? 'no interval (too few runs)'
        : `${this.interval.label}: ${interval(e.low[point], e.high[point], metric.unit)}`],
    ];
  }

  runLines(metric, run) {
    const { flags, position } = this.runs;
    return [
      [quantity(this.value(metric.name, run), metric.unit), metric.label],
      ['', `${this.pointLabel(this.runs.point[run])}`],
      ['', `${this.runLabel(run)}, run ${number(position[run] + 1, 6)} in order`],
      ...(flags[run].length ? [['', `flags: ${flags[run].join(', ')}`]] : []),
    ];
  }
}
