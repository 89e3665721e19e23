//! Drawing of a state: a header, tabs, a list or a page, and the keys.

use ratatui::{
    Frame,
    layout::Rect,
    style::{Color, Modifier, Style},
    text::{Line, Span},
    widgets::Paragraph,
};

use super::{
    pane::Pane,
    state::{Front, HELP, LINES_AROUND, ViewState},
    wrap,
};
use crate::{
    app::status::{EnforcementState, Status},
    cli::{
        output::Paint,
        table::{Row, Tone},
        text, time,
    },
};

/// Columns for the mark of the selected row.
const MARK_WIDTH: u16 = 2;
/// Rows before and after the visible ones whose content determines the widths of columns, too.
const MAX_MEASURED: usize = 200;

/// Draws a state.
pub(super) fn draw(state: &ViewState, paint: Paint, frame: &mut Frame<'_>) {
    let area = frame.area();
    let line = |y: u16| Rect::new(area.x, area.y.saturating_add(y), area.width, 1).intersection(area);
    let last = area.height.saturating_sub(1);
    frame.render_widget(header(state, paint), line(0));
    frame.render_widget(note(state, paint), line(1));
    frame.render_widget(tabs(state, area.width), line(2));
    let body = Rect::new(area.x, area.y + 3, area.width, last.saturating_sub(3)).intersection(area);
    match &state.front {
        Front::List | Front::Filter | Front::Confirm(_) => list(state, paint, body, frame),
        Front::Help { scroll } => page(HELP.lines(), *scroll, body, frame),
        Front::Page { lines, scroll } => page(lines.iter().map(String::as_str), *scroll, body, frame),
    }
    frame.render_widget(footer(state, paint, area.width), line(last));
}

fn header(state: &ViewState, paint: Paint) -> Line<'static> {
    let snapshot = &state.snapshot;
    let tone = match snapshot.status.as_deref().map(|status| status.state) {
        Some(EnforcementState::Enforcing) => Tone::Ordinary,
        Some(EnforcementState::Observing | EnforcementState::Starting) | None => Tone::Notable,
        Some(EnforcementState::Degraded) => Tone::Alarming,
    };
    let daemon = snapshot
        .status
        .as_deref()
        .map_or_else(|| "no daemon seen".to_owned(), enforcement);
    let mut spans = vec![
        Span::styled("mcpmon top ", Modifier::BOLD),
        Span::styled(daemon, style(tone, paint)),
    ];
    if state.is_frozen {
        spans.push(Span::styled("  FROZEN", Modifier::REVERSED));
    }
    spans.push(Span::raw(format!(
        "  {} UTC  {}",
        time::short(snapshot.at),
        text::escape(&snapshot.store.display().to_string())
    )));
    Line::from(spans)
}

/// Describes the enforcement, such as `enforcing, 3 of 4 starts wrapped`.
fn enforcement(status: &Status) -> String {
    let coverage = status.coverage;
    let coverage = match coverage.seen {
        0 => String::new(),
        seen => format!(", {} of {seen} starts wrapped", coverage.wrapped),
    };
    let degraded: Vec<&str> = status.degraded.keys().map(String::as_str).collect();
    let degraded = match degraded.is_empty() {
        true => String::new(),
        false => format!(" ({})", degraded.join(", ")),
    };
    text::escape(&format!("{}{degraded}{coverage}", status.state.as_str())).into_owned()
}

fn note(state: &ViewState, paint: Paint) -> Line<'static> {
    let note = state
        .snapshot
        .notes
        .first()
        .map(|note| text::escape(note).into_owned());
    Line::styled(note.unwrap_or_default(), style(Tone::Notable, paint))
}

fn tabs(state: &ViewState, width: u16) -> Line<'static> {
    let waiting = state.snapshot.waiting();
    let tabs = |is_short: bool| {
        let tab = |(number, pane): (usize, Pane)| {
            let title = match is_short {
                true => "",
                false => pane.title(),
            };
            let gap = if is_short { "" } else { " " };
            let count = match pane == Pane::Approvals && waiting > 0 {
                true => format!(" ({waiting})"),
                false => String::new(),
            };
            match pane == state.pane {
                true => Span::styled(
                    format!("[{number} {}{count}]", pane.title()),
                    Modifier::BOLD | Modifier::REVERSED,
                ),
                false => Span::raw(format!(" {number}{gap}{title}{count} ")),
            }
        };
        Line::from((1..).zip(Pane::ALL).map(tab).collect::<Vec<_>>())
    };
    let whole = tabs(false);
    match whole.width() <= usize::from(width) {
        true => whole,
        false => tabs(true),
    }
}

fn list(state: &ViewState, paint: Paint, area: Rect, frame: &mut Frame<'_>) {
    let shown = state.shown();
    let (selected, room) = (state.selected(), usize::from(area.height.saturating_sub(1)));
    let first = (selected + 1).saturating_sub(room);
    // Columns keep their widths while a few pages are scrolled.
    let measured = first.saturating_sub(MAX_MEASURED)..(first + room + MAX_MEASURED).min(shown.len());
    let rows: Vec<Row> = shown[measured.clone()]
        .iter()
        .map(|entry| entry.row.clone())
        .collect();
    let width = area.width.saturating_sub(MARK_WIDTH);
    let mut drawn = state
        .list
        .table
        .header_and_rows(&rows, width, Paint::Plain)
        .into_iter();
    let header = drawn.next().unwrap_or_default();
    let mut lines = vec![Line::styled(format!("  {header}"), Modifier::BOLD)];
    let in_sight = drawn
        .zip(&rows)
        .zip(measured)
        .skip_while(|(_, index)| *index < first);
    for ((line, row), index) in in_sight.take(room) {
        lines.push(match index == selected {
            true => Line::styled(
                format!("> {line}"),
                style(row.tone(), paint).add_modifier(Modifier::REVERSED),
            ),
            false => Line::styled(format!("  {line}"), style(row.tone(), paint)),
        });
    }
    if shown.is_empty() {
        let why = match state.filter.is_empty() {
            true => state.pane.when_empty().to_owned(),
            false => format!("no row contains `{}`", text::escape(&state.filter)),
        };
        lines.push(Line::raw(format!("  {why}")));
    }
    frame.render_widget(Paragraph::new(lines), area);
}

fn page<'t>(lines: impl IntoIterator<Item = &'t str>, scroll: usize, area: Rect, frame: &mut Frame<'_>) {
    let lines = wrap::lines(lines, area.width).into_iter().skip(scroll);
    let lines: Vec<Line<'_>> = lines.take(usize::from(area.height)).map(Line::raw).collect();
    frame.render_widget(Paragraph::new(lines), area);
}

fn footer(state: &ViewState, paint: Paint, width: u16) -> Line<'static> {
    match &state.front {
        Front::Filter => Line::raw(format!("/{}▏", text::escape(&state.filter))),
        Front::Confirm(answer) => {
            let word = if answer.is_allowed { "allow" } else { "deny" };
            Line::styled(
                format!(
                    "{word} {}? y: yes, any other key: no",
                    text::escape(&answer.question.subject)
                ),
                style(Tone::Notable, paint).add_modifier(Modifier::BOLD),
            )
        }
        Front::Help { .. } | Front::Page { .. } => Line::raw("Esc back  ↑ ↓ PgUp PgDn scroll"),
        Front::List => match &state.message {
            Some(message) => Line::styled(
                text::escape(message).into_owned(),
                style(Tone::Notable, paint).add_modifier(Modifier::BOLD),
            ),
            None => keys(state, width),
        },
    }
}

fn keys(state: &ViewState, width: u16) -> Line<'static> {
    let count = state.shown().len();
    let (selected, freeze) = (
        if count == 0 { 0 } else { state.selected() + 1 },
        if state.is_frozen { "go on" } else { "freeze" },
    );
    let filter = match state.filter.is_empty() {
        true => "/ filter".to_owned(),
        false => format!("/ {}", text::escape(&state.filter)),
    };
    let answer = match state.pane == Pane::Approvals {
        true => "  a allow  d deny",
        false => "",
    };
    let line = format!(
        "? help  q quit  {filter}  s by {}  Space {freeze}  Enter all{answer}  {selected}/{count}",
        state.order()
    );
    let line = wrap::lines([&*line], width).swap_remove(0);
    Line::styled(line, Modifier::DIM)
}

fn style(tone: Tone, paint: Paint) -> Style {
    match (tone, paint) {
        (Tone::Ordinary, _) => Style::new(),
        (Tone::Notable, Paint::Ansi) => Style::new().fg(Color::Yellow),
        (Tone::Alarming, Paint::Ansi) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
        (Tone::Notable, Paint::Plain) => Style::new(),
        (Tone::Alarming, Paint::Plain) => Style::new().add_modifier(Modifier::BOLD),
    }
}

const _: () = assert!(LINES_AROUND == 5, "header, note, tabs, columns, keys");
