// Tables: sorted by a click or Enter on a column's heading, filtered by words. Works on the
// rows in the page; a cell's `data-value` (when it has one) is what is compared.

import { button, h, uniqueId } from './dom.js';
import { count } from './format.js';

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });

function compareCells(a, b) {
  const [x, y] = [a, b].map((cell) => cell.dataset.value ?? cell.textContent);
  const [nx, ny] = [x, y].map((v) => (v === '' ? NaN : Number(v)));
  if (!Number.isNaN(nx) && !Number.isNaN(ny)) return nx - ny;
  return collator.compare(x, y);
}

// A cell without a value ("–") sorts last in either direction.
const isEmpty = (cell) =>
  cell.dataset.value === '' ||
  (cell.dataset.value === undefined && /^[–\s]*$/.test(cell.textContent));

export function sortBy(table, index, direction) {
  const body = table.tBodies[0];
  const rows = [...body.rows];
  rows.sort((a, b) => {
    const [p, q] = [a.cells[index], b.cells[index]];
    const [e, f] = [isEmpty(p), isEmpty(q)];
    if (e || f) return e - f;
    return direction * compareCells(p, q);
  });
  body.append(...rows);
  [...table.tHead.rows[0].cells].forEach((cell, i) => {
    if (i === index) cell.setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
    else cell.removeAttribute('aria-sort');
  });
}

/** Turn the headings of a table into buttons that sort it. */
export function makeSortable(table) {
  if (table.dataset.bound || !table.tHead) return;
  table.dataset.bound = '1';
  [...table.tHead.rows[0].cells].forEach((cell, i) => {
    const label = [...cell.childNodes];
    const press = button(
      '',
      () => {
        const up = cell.getAttribute('aria-sort') === 'ascending';
        sortBy(table, i, up ? -1 : 1);
      },
      { class: 'sort' },
    );
    press.append(...label);
    cell.append(press);
  });
}

/** columns: {label, numeric}; rows: arrays of texts, elements, or {value, text}. */
export function makeTable({ columns, rows, label }) {
  const head = h(
    'tr',
    {},
    columns.map((c) =>
      h('th', { scope: 'col', class: c.numeric ? 'number' : null, title: c.hint }, c.label),
    ),
  );
  const body = h(
    'tbody',
    {},
    rows.map((row) =>
      h(
        'tr',
        {},
        row.map((cell, i) => {
          const plain = cell === null || typeof cell !== 'object' || cell instanceof Node;
          const { value = null, text } = plain ? { text: cell } : cell;
          return h(
            'td',
            {
              class: columns[i].numeric ? 'number' : null,
              'data-value': plain ? null : Number.isNaN(value ?? NaN) ? '' : value,
            },
            text,
          );
        }),
      ),
    ),
  );
  const table = h('table', { 'aria-label': label }, h('thead', {}, head), body);
  makeSortable(table);
  return h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, table);
}

/** A field that hides the rows in which not all words occur; tells how many are left. */
export function filterField(table, label, onfilter) {
  const id = uniqueId('filter');
  const readout = h('span', { class: 'muted', 'aria-live': 'polite' });
  const apply = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    let left = 0;
    for (const row of table.tBodies[0].rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
      if (!row.hidden) left += 1;
    }
    readout.textContent = `${count(left)} of ${count(table.tBodies[0].rows.length)} rows`;
    onfilter?.();
  };
  const field = h('input', { id, type: 'search', oninput: apply, placeholder: 'words' });
  apply();
  return h('div', { class: 'controls' }, h('label', { for: id }, label), field, readout);
}
