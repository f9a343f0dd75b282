// Tables: sorted by a click or Enter on a column's heading, filtered by words. Works on the
// rows in the page; a cell's `data-value` (when it has one) is what is compared.

import { button, h, labelled } from './dom.js';
import { count } from './format.js';

const collator = new Intl.Collator('en', { numeric: true, sensitivity: 'base' });
const valueOf = (cell) => cell.dataset.value ?? cell.textContent.replace(/^[–\s]*$/, '');

/** A cell without a value ("–") sorts last in either direction. */
function compare(x, y, direction) {
  if (x === '' || y === '') return (x === '') - (y === '');
  const difference = Number(x) - Number(y);
  return direction * (Number.isNaN(difference) ? collator.compare(x, y) : difference);
}

function sortBy(table, index) {
  const heads = [...table.tHead.rows[0].cells];
  const direction = heads[index].getAttribute('aria-sort') === 'ascending' ? -1 : 1;
  const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[index]), row]);
  rows.sort(([x], [y]) => compare(x, y, direction));
  table.tBodies[0].append(...rows.map(([, row]) => row));
  for (const head of heads) head.removeAttribute('aria-sort');
  heads[index].setAttribute('aria-sort', direction > 0 ? 'ascending' : 'descending');
}

/** Turn the headings of a table into buttons that sort it. */
export function makeSortable(table) {
  [...(table.tHead?.rows[0].cells ?? [])].forEach((cell, i) => {
    const press = button('', () => sortBy(table, i), { class: 'sort' });
    press.append(...cell.childNodes);
    cell.append(press);
  });
}

/** The numbers of a chart, at most so many rows. */
export function makeTable({ rows, columns, n }, most, label) {
  const kind = (wording) => (wording ? 'number' : null);
  const cells = (row) =>
    columns.map(([, of, wording]) => {
      const value = of(row);
      const known = Number.isNaN(value ?? NaN) ? '' : value;
      return h(
        'td',
        { class: kind(wording), 'data-value': wording && known },
        wording ? wording(value, row) : value,
      );
    });
  const some = [];
  for (const row of typeof rows === 'function' ? rows() : rows) {
    if (some.push(h('tr', {}, cells(row))) === most) break;
  }
  const heads = columns.map(([text, , wording]) =>
    h('th', { scope: 'col', class: kind(wording) }, text),
  );
  const table = h(
    'table',
    { 'aria-label': label },
    h('thead', {}, h('tr', {}, heads)),
    h('tbody', {}, some),
  );
  makeSortable(table);
  return h(
    'div',
    {},
    h('div', { class: 'scroll', tabindex: 0, role: 'region', 'aria-label': label }, table),
    n > most && h('p', { class: 'muted' }, `The first ${count(most)} of ${count(n)} rows.`),
  );
}

/** A field that hides the rows in which not all words occur; tells how many are left. */
export function filterField(table, label) {
  const readout = h('span', { class: 'muted', 'aria-live': 'polite' });
  const rows = [...table.tBodies[0].rows];
  const apply = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    const left = rows.filter((row) => !row.hidden).length;
    readout.textContent = `${count(left)} of ${count(rows.length)} rows`;
  };
  const field = h('input', { type: 'search', oninput: apply, placeholder: 'words' });
  apply();
  return h('div', { class: 'controls' }, labelled(label, field), readout);
}
