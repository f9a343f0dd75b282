// Colours live in CSS variables only; drawing code asks for them when it draws. The theme is
// the system's unless the reader chose one; printing forces the light one.

const root = document.documentElement;

export const colour = (name) => getComputedStyle(root).getPropertyValue(`--${name}`).trim();

const SERIES = 8;
const SHAPES = [
  'circle',
  'rect',
  'triangle',
  'diamond',
  'path://M0 0H10L5 9Z', // triangle, point down
  'path://M3.5 0h3v3.5H10v3H6.5V10h-3V6.5H0v-3h3.5Z', // plus
  'path://M5 0L6.5 3.5L10 3.8L7.4 6.3L8.1 10L5 8.1L1.9 10L2.6 6.3L0 3.8L3.5 3.5Z', // star
  'path://M0 2L2 0L5 3L8 0L10 2L7 5L10 8L8 10L5 7L2 10L0 8L3 5Z', // cross
];
const DASHES = ['solid', [6, 3], [2, 2], [8, 3, 2, 3]];

/** How the k-th series looks: colour, shape and dash differ, so that no one needs colour. */
export function seriesLook(k) {
  return {
    colour: colour(`c${(k % SERIES) + 1}`),
    shape: SHAPES[k % SHAPES.length],
    dash: DASHES[Math.floor(k / SERIES) % DASHES.length],
  };
}

const listeners = new Set();
/** Call `listener` after the colours have changed. */
export const onTheme = (listener) => {
  listeners.add(listener);
};
const tell = () => {
  for (const listener of listeners) listener();
};

const dark = matchMedia('(prefers-color-scheme: dark)');
export const currentTheme = () => root.dataset.theme ?? (dark.matches ? 'dark' : 'light');

export function bindTheme(toggle) {
  const label = () => {
    const next = currentTheme() === 'dark' ? 'light' : 'dark';
    toggle.textContent = next === 'dark' ? 'Dark colours' : 'Light colours';
  };
  toggle.addEventListener('click', () => {
    root.dataset.theme = currentTheme() === 'dark' ? 'light' : 'dark';
    label();
    tell();
  });
  dark.addEventListener('change', () => {
    label();
    tell();
  });
  toggle.hidden = false;
  label();
}
