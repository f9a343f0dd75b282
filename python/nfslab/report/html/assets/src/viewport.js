// What part of a figure is in view: a box [x0, x1] x [y0, y1] in positions, always inside
// the full domain. Viewports in one link group share their x range (run time).

const LEAST_SHARE = 1e-5; // of the full span: deeper than most figures have data for

const groups = new Map();

function clampRange([a, b], [low, high], least) {
  const span = Math.max(b - a, (high - low) * least);
  if (span >= high - low) return [low, high];
  let from = b - a === span ? a : (a + b - span) / 2;
  from = Math.min(Math.max(from, low), high - span);
  return [from, from + span];
}

export class Viewport {
  /** `full`: {x: [a, b], y: [a, b]}; `group`: name of a link group or none; `least`: share of
      the full span that may fill the view. */
  constructor(full, onchange, group = '', least = LEAST_SHARE) {
    this.onchange = onchange;
    this.group = group;
    this.least = least;
    this.assign(full);
    if (group) {
      if (!groups.has(group)) groups.set(group, new Set());
      groups.get(group).add(this);
    }
  }

  assign(full) {
    this.full = { x: [...full.x], y: [...full.y] };
    this.x = [...full.x];
    this.y = [...full.y];
  }

  /** New full domain (another metric); a zoom on x survives when its domain is the same. */
  refit(full) {
    const same = full.x[0] === this.full.x[0] && full.x[1] === this.full.x[1];
    const x = this.x;
    this.assign(full);
    if (same) this.x = x;
  }

  get zoomed() {
    const narrower = (v, f) => v[1] - v[0] < (f[1] - f[0]) * (1 - 1e-9);
    return narrower(this.x, this.full.x) || narrower(this.y, this.full.y);
  }

  set(x, y) {
    if (x) this.x = clampRange(x, this.full.x, this.least);
    if (y) this.y = clampRange(y, this.full.y, LEAST_SHARE);
    this.onchange();
    if (x && this.group) {
      for (const other of groups.get(this.group)) {
        if (other === this || other.full.x[1] !== this.full.x[1]) continue;
        other.x = [...this.x];
        other.onchange();
      }
    }
  }

  reset() { this.set(this.full.x, this.full.y); }

  /** Shares of the present view: pan(0.2, 0) moves to the right by a fifth. */
  pan(dx, dy) {
    const w = (this.x[1] - this.x[0]) * dx;
    const t = (this.y[1] - this.y[0]) * dy;
    this.set(dx ? this.x.map((v) => v + w) : null, dy ? this.y.map((v) => v + t) : null);
  }

  /** Zoom around the place (cx, cy), given as shares of the view; null leaves an axis. */
  zoom(factor, cx = 0.5, cy = 0.5) {
    const around = ([a, b], c) => {
      const centre = a + c * (b - a);
      return [centre - (centre - a) * factor, centre + (b - centre) * factor];
    };
    this.set(cx === null ? null : around(this.x, cx), cy === null ? null : around(this.y, cy));
  }

  contains(x, y) {
    const e = 1e-12;
    return x >= this.x[0] - e && x <= this.x[1] + e && y >= this.y[0] - e && y <= this.y[1] + e;
  }
}
