// The panels of a dashboard with the answers to their queries, as Grafana draws and places them.
import { createTheme, dateTime, dateTimeFormat, FieldType, getDisplayProcessor, ThemeContext, toDataFrame } from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';
import { createRoot } from 'react-dom/client';
import data from 'data';

const COLUMN = 58;
const ROW = 38;
const GAP = 8;
const theme = createTheme({ colors: { mode: 'dark' } });

/** A series as a frame with the panel's unit, mappings and thresholds. */
function frame(panel, series, seriesIndex) {
  const { unit, mappings, thresholds } = panel.fieldConfig.defaults;
  const color = { mode: panel.type === 'stat' ? 'thresholds' : 'palette-classic' };
  const custom = { drawStyle: 'line', lineWidth: 1, fillOpacity: 10, showPoints: 'never', spanNulls: false };
  const config = { displayName: series.name, unit, mappings, thresholds, color, custom, min: unit === 'percentunit' ? 0 : undefined };
  const result = toDataFrame({
    fields: [
      { name: 'time', type: FieldType.time, values: series.points.map(([time]) => time), config: {} },
      { name: series.name, type: FieldType.number, values: series.points.map(([, value]) => value), config },
    ],
  });
  for (const field of result.fields) {
    field.state = { seriesIndex };
    field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
  }
  return result;
}

function Lines({ panel, width, height }) {
  const range = { from: dateTime(data.from), to: dateTime(data.to), raw: { from: dateTime(data.from), to: dateTime(data.to) } };
  const legend = { showLegend: true, displayMode: 'list', placement: 'bottom', calcs: [] };
  const frames = panel.series.map((series, index) => frame(panel, series, index));
  return <TimeSeries {...{ frames, width, height, legend }} timeRange={range} timeZone="utc" options={{}} tweakAxis={(axis) => axis} />;
}

function Stats({ panel, width, height }) {
  const each = width / panel.series.length;
  return (
    <div style={{ display: 'flex', gap: 4 }}>
      {panel.series.map((series) => {
        const values = frame(panel, series, 0).fields[1];
        const value = values.display(values.values.at(-1));
        const named = panel.options.textMode === 'value_and_name';
        return (
          <BigValue
            key={series.name}
            theme={theme}
            width={each - 4}
            height={height}
            colorMode={panel.options.colorMode ?? 'value'}
            graphMode="none"
            justifyMode="auto"
            textMode={named ? 'value_and_name' : 'auto'}
            text={{ titleSize: 14, valueSize: named ? 18 : undefined }}
            value={named ? { ...value, title: series.name } : value}
          />
        );
      })}
    </div>
  );
}

function Rows({ panel }) {
  const cell = { padding: '6px 8px', textAlign: 'left', borderBottom: `1px solid ${theme.colors.border.weak}`, overflow: 'hidden', textOverflow: 'ellipsis' };
  const names = Object.keys(panel.series[0]?.labels ?? {});
  return (
    <table style={{ width: '100%', tableLayout: 'fixed' }}>
      <thead>
        <tr>{names.map((name) => <th key={name} style={{ ...cell, color: theme.colors.text.link }}>{name}</th>)}</tr>
      </thead>
      <tbody>
        {panel.series.map(({ name, labels }) => (
          <tr key={name}>{names.map((name) => <td key={name} style={cell}>{labels[name]}</td>)}</tr>
        ))}
      </tbody>
    </table>
  );
}

const KINDS = { timeseries: Lines, stat: Stats, table: Rows };

function Panel({ panel }) {
  const { x, y, w, h } = panel.gridPos;
  const Kind = KINDS[panel.type];
  return (
    <div style={{ position: 'absolute', left: x * COLUMN + GAP, top: y * ROW }}>
      <PanelChrome width={w * COLUMN - GAP} height={h * ROW - GAP} title={panel.title}>
        {(width, height) => (panel.series.length ? <Kind panel={panel} width={width} height={height} /> : <div style={{ textAlign: 'center', paddingTop: height / 2 - 20 }}>No data</div>)}
      </PanelChrome>
    </div>
  );
}

function Dashboard() {
  const at = (time) => dateTimeFormat(time, { timeZone: 'utc' });
  return (
    <ThemeContext.Provider value={theme}>
      <GlobalStyles />
      <div style={{ background: theme.colors.background.canvas, padding: '14px 8px', minHeight: '100vh' }}>
        <div style={{ display: 'flex', justifyContent: 'space-between', padding: `0 ${GAP}px 10px`, fontSize: 18 }}>
          <span>{data.title}</span>
          <span style={{ fontSize: 13, color: theme.colors.text.secondary }}>
            {at(data.from)} to {at(data.to)} UTC
          </span>
        </div>
        <div style={{ position: 'relative' }}>
          {data.panels.map((panel) => <Panel key={panel.id} panel={panel} />)}
        </div>
      </div>
    </ThemeContext.Provider>
  );
}

createRoot(document.getElementById('root')).render(<Dashboard />);
