// Builds the one script of an HTML report out of the modules in
// python/nfslab/report/html/assets/src and ECharts, and writes beside it what it was made of.
//
//   npm ci && npm run build     rebuild
//   npm run check               build and compare with what is committed; changes nothing
//
// The result is committed: installing and running nfslab needs no node.

import { createHash } from 'node:crypto';
import { readFile, readdir, writeFile } from 'node:fs/promises';
import { fileURLToPath } from 'node:url';
import path from 'node:path';
import { build } from 'esbuild';

const here = path.dirname(fileURLToPath(import.meta.url));
const assets = path.resolve(here, '../python/nfslab/report/html/assets');
const sources = path.join(assets, 'src');
const bundle = path.join(assets, 'vendor', 'report.min.js');
const record = path.join(assets, 'vendor', 'BUNDLE.json');
const licences = path.join(assets, 'vendor', 'LICENSES.md');
const sha256 = (bytes) => createHash('sha256').update(bytes).digest('hex');

// One hash over all sources: "name NUL sha256 LF" of each file, sorted by name.
async function sourceHash() {
  const names = (await readdir(sources, { recursive: true }))
    .filter((name) => name.endsWith('.js')).map((name) => name.split(path.sep).join('/')).sort();
  const total = createHash('sha256');
  for (const name of names) {
    total.update(`${name}\0${sha256(await readFile(path.join(sources, name)))}\n`);
  }
  return { files: names.length, sha256: total.digest('hex') };
}

async function packages(metafile) {
  const names = new Set(Object.keys(metafile.inputs)
    .map((input) => /node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(input)?.[1]).filter(Boolean));
  const list = [];
  for (const name of [...names].sort()) {
    const file = path.join(here, 'node_modules', name, 'package.json');
    const { version, license } = JSON.parse(await readFile(file, 'utf8'));
    list.push({ name, version, license });
  }
  return list;
}

// Which files of a package have to be passed on with it.
const NOTICES = {
  echarts: ['NOTICE', 'licenses/LICENSE-d3'], zrender: ['LICENSE'], tslib: ['CopyrightNotice.txt'],
};

async function notices(list) {
  const parts = [
    '# Software inside report.min.js\n\nEvery HTML report carries it, with this text.\n',
  ];
  for (const { name, version, license } of list) {
    parts.push(`\n## ${name} ${version} (${license})\n`);
    for (const file of NOTICES[name]) {
      const text = await readFile(path.join(here, 'node_modules', name, file), 'utf8');
      parts.push(`\n${text.replaceAll('\r', '').replaceAll('*/', '* /').trim()}\n`);
    }
    if (license === 'Apache-2.0') parts.push('\nLicensed under the Apache License, Version 2.0.\n');
  }
  return parts.join('');
}

// Of the toolbox only the zoom by a drag is used; pictures are saved by code of ours.
const unused = {
  name: 'unused toolbox features',
  setup: ({ onLoad }) => onLoad(
    { filter: /toolbox\/feature\/(DataView|MagicType|Restore|SaveAsImage)\.js$/ },
    () => ({ contents: 'export default class {}' }),
  ),
};

const result = await build({
  plugins: [unused],
  absWorkingDir: here,
  entryPoints: [path.join(sources, 'main.js')],
  nodePaths: [path.join(here, 'node_modules')],
  bundle: true,
  minify: true,
  format: 'iife',
  target: ['es2022'],
  charset: 'utf8',
  legalComments: 'none',
  metafile: true,
  write: false,
  outfile: bundle,
  define: { 'process.env.NODE_ENV': '"production"' },
});
const used = await packages(result.metafile);
const licenceText = await notices(used);

// "</script" and "<!--" would end or hide the script inside a page.
const text = `/*\n${licenceText}*/\n${result.outputFiles[0].text}`
  .replaceAll(/<\/(script)/gi, '<\\/$1').replaceAll('<!--', '<\\!--');
const manifest = {
  bundle: { file: 'report.min.js', bytes: Buffer.byteLength(text), sha256: sha256(text) },
  sources: await sourceHash(),
  packages: used,
  built_with: { esbuild: JSON.parse(await readFile(
    path.join(here, 'node_modules/esbuild/package.json'), 'utf8')).version },
};
const json = `${JSON.stringify(manifest, null, 2)}\n`;

if (process.argv.includes('--check')) {
  const committed = [bundle, record, licences].map((file) => readFile(file, 'utf8'));
  const same = (await Promise.all(committed)).join('') === [text, json, licenceText].join('');
  console.log(same ? 'the committed bundle is what the sources give'
    : 'the committed bundle differs: run `npm run build`');
  process.exitCode = same ? 0 : 1;
} else {
  await writeFile(bundle, text);
  await writeFile(record, json);
  await writeFile(licences, licenceText);
  console.log(`${path.relative(process.cwd(), bundle)}: ${manifest.bundle.bytes} bytes`);
}
