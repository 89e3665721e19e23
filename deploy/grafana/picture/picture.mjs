// Draws ../dashboard.json as a picture: asks a Prometheus every query of every panel, and has chromium draw the answers
// with Grafana's own components, for Grafana itself is in no registry of packages.
//
//     npm install --legacy-peer-deps
//     node picture.mjs PROMETHEUS_URL MINUTES OUT.png
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

const [prometheus, minutes, out] = process.argv.slice(2);
if (!out) {
  console.error('usage: node picture.mjs PROMETHEUS_URL MINUTES OUT.png');
  process.exit(2);
}
const here = fileURLToPath(new URL('.', import.meta.url));
const dashboard = JSON.parse(readFileSync(join(here, '../dashboard.json'), 'utf8'));
const to = Math.floor(Date.now() / 1000);
const from = to - Number(minutes) * 60;
const step = Math.max(1, Math.round((to - from) / 240));

async function ask(path, values) {
  const url = new URL(path, prometheus);
  for (const [name, value] of Object.entries(values)) url.searchParams.set(name, value);
  const answer = await (await fetch(url)).json();
  if (answer.status !== 'success') throw new Error(`${values.query ?? path}: ${answer.error}`);
  return answer.data;
}

// As Grafana has it: four scrapes, or a step and a scrape.
const { yaml } = await ask('/api/v1/status/config', {});
const scrape = Number(/scrape_interval: (\d+)s/.exec(yaml)?.[1] ?? 15);
const rateInterval = Math.max(step + scrape, 4 * scrape);

async function series(target) {
  const query = target.expr.replaceAll('$__rate_interval', `${rateInterval}s`).replaceAll('$instance', '.*');
  const { result } = target.instant
    ? await ask('/api/v1/query', { query, time: to })
    : await ask('/api/v1/query_range', { query, start: from, end: to, step });
  const legend = (labels) => (target.legendFormat ?? '').replace(/{{(\w+)}}/g, (_, name) => labels[name] ?? '');
  return result.map(({ metric, values, value }) => ({
    labels: metric,
    name: legend(metric) || Object.values(metric).join(' ') || target.expr,
    points: (values ?? [value]).map(([time, value]) => [time * 1000, Number(value)]),
  }));
}

const panels = [];
for (const panel of dashboard.panels) {
  panels.push({ ...panel, series: (await Promise.all(panel.targets.map(series))).flat() });
}

const directory = mkdtempSync(join(tmpdir(), 'dashboard-'));
try {
  const file = (name) => join(directory, name);
  const data = { title: dashboard.title, from: from * 1000, to: to * 1000, panels };
  writeFileSync(file('data.json'), JSON.stringify(data));
  const { build } = await import('esbuild');
  await build({
    entryPoints: [join(here, 'panels.jsx')],
    alias: { data: file('data.json') },
    outfile: file('panels.js'),
    bundle: true,
    minify: true,
    jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"production"', global: 'window' },
    loader: { '.svg': 'dataurl', '.woff2': 'dataurl', '.ttf': 'empty' },
    logLevel: 'error',
  });
  writeFileSync(
    file('page.html'),
    '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="panels.css"><div id="root"></div><script src="panels.js"></script>',
  );
  const rows = Math.max(...panels.map(({ gridPos }) => gridPos.y + gridPos.h));
  const flags = ['--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--virtual-time-budget=10000'];
  const size = `--window-size=1416,${rows * 38 + 72}`;
  execFileSync('chromium', [...flags, size, `--screenshot=${out}`, `file://${file('page.html')}`], {
    stdio: ['ignore', 'inherit', 'ignore'],
    timeout: 120_000,
  });
} finally {
  rmSync(directory, { recursive: true });
}
