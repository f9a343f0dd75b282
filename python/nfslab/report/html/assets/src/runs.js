// The table of all runs: every one, failed ones with their reason; sorted and filtered by the
// reader. A press on a run shows its evidence.

import { button, h } from './dom.js';
import { count, quantity } from './format.js';
import { filterField, makeTable } from './table.js';

const MOST_METRICS = 4;
const PRINTED = 60; // as in report.css

export function runTable(model, showRun) {
  const { runs } = model;
  // The primary metric, and those with a direction that are not the same in all runs.
  const differs = (m) => new Set(runs.values[m.name].filter((v) => v !== null)).size > 1;
  const metrics = model.metrics.filter((m) => m.primary || (m.better && differs(m)))
    .slice(0, MOST_METRICS);
  const columns = [
    { label: 'place', numeric: true, hint: 'place in the order of runs' },
    { label: 'run', nowrap: true, show: (id, row) => (row.showable
      ? button(id, () => showRun(row.run), { class: 'link', title: 'Show its evidence' }) : id) },
    { label: 'block', numeric: true },
    ...model.varying.map((a) => ({
      label: model.axisTitle(a), nowrap: true, numeric: model.axes[a].numeric,
      show: (_, row) => {
        const level = model.levelOf(a, row.run);
        return level === null ? '–' : model.level(a, level);
      } })),
    {
      label: 'status', nowrap: true,
      show: (v) => h('span', { class: v === 'ok' ? 'ok' : 'bad' }, v),
    },
    { label: 'flags, or why it failed', show: (v) => v || '–' },
    ...metrics.map((m) => ({
      label: m.label, numeric: true, show: (v) => quantity(v, m.unit),
    })),
    { label: 'duration', numeric: true, show: (v) => quantity(v, 's') },
  ];
  const rows = runs.id.map((id, i) => {
    const row = [
      runs.position[i] + 1, id, runs.block[i] + 1,
      ...model.varying.map((a) => {
        const level = model.levelOf(a, i);
        if (level === null) return null;
        return model.axes[a].numeric ? model.axes[a].values[level] : model.level(a, level);
      }),
      runs.status[i],
      runs.status[i] === 'failed' ? runs.reason[i].split('\n')[0] : runs.flags[i].join(', '),
      ...metrics.map((m) => model.value(m.name, i)), runs.duration_s[i],
    ];
    row.run = i;
    row.showable = runs.counted[i] && runs.has_series[i];
    return row;
  });
  const region = makeTable({ columns, rows, label: 'All runs' });
  region.classList.add('tall');
  const table = region.querySelector('table');
  table.id = 'run-table';
  const note = rows.length > PRINTED ? [h('p', { class: 'muted paper-only' },
    `On paper: the first ${PRINTED} of ${count(rows.length)} runs, in the order chosen on screen.`)]
    : [];
  return [filterField(table, 'Rows with'), ...note, region];
}
