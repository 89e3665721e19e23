//! Tables with one line for each row, within the available width.

use anstyle::{AnsiColor, Style};
use comfy_table::{ColumnConstraint, ContentArrangement, Width, presets};

use super::{output::Paint, text};

/// Spaces between columns.
const GAP: u16 = 2;

/// Smallest width to which a column is cut.
const MIN_WIDTH: u16 = 4;

/// The columns of a listing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Table {
    pub(super) columns: &'static [Column],
    layout: Layout,
}

/// One column.
#[derive(Clone, Copy, Debug)]
pub(super) struct Column {
    header: &'static str,
    /// Width in a growing table, and where other columns need the space.
    width: u16,
    fit: Fit,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fit {
    Whole,
    CutEnd,
    CutStart,
}

/// The way columns get their widths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Layout {
    /// From the content.
    Content,
    /// Fixed in advance, because more rows will follow.
    Fixed,
}

/// One row: its escaped cells, and its emphasis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    cells: Vec<String>,
    tone: Tone,
}

/// The emphasis of a row: like journalctl, a row has one color.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Tone {
    Ordinary,
    Notable,
    Alarming,
}

impl Column {
    /// Makes a column that is never shortened.
    pub(super) const fn whole(header: &'static str, width: u16) -> Self {
        Self {
            header,
            width,
            fit: Fit::Whole,
        }
    }

    /// Makes a column that is shortened with `…` if the space is needed.
    pub(super) const fn cut(header: &'static str, width: u16) -> Self {
        Self {
            header,
            width,
            fit: Fit::CutEnd,
        }
    }

    /// Returns the number of characters of the header, all of them ASCII.
    fn header_width(&self) -> u16 {
        u16::try_from(self.header.len())
            .expect("a header is a few words")
            .max(MIN_WIDTH)
    }

    /// Makes a column that is shortened with `…` at its start: for paths, whose end is most important.
    pub(super) const fn cut_start(header: &'static str, width: u16) -> Self {
        Self {
            header,
            width,
            fit: Fit::CutStart,
        }
    }
}

impl Row {
    /// Makes a row, with every cell made safe to show.
    pub(super) fn new(tone: Tone, cells: impl IntoIterator<Item = String>) -> Self {
        let cells = cells.into_iter().map(|cell| text::escape(&cell).into_owned());
        let cells = cells.collect();
        Self { cells, tone }
    }

    /// Returns the emphasis.
    pub(super) const fn tone(&self) -> Tone {
        self.tone
    }

    /// Returns whether a cell contains a text in lower case.
    pub(super) fn contains(&self, text: &str) -> bool {
        self.cells.iter().any(|cell| cell.to_lowercase().contains(text))
    }
}

impl Tone {
    const fn style(self) -> Style {
        match self {
            Self::Ordinary => Style::new(),
            Self::Notable => AnsiColor::Yellow.on_default(),
            Self::Alarming => AnsiColor::Red.on_default().bold(),
        }
    }
}

impl Table {
    pub(super) const fn new(columns: &'static [Column]) -> Self {
        Self {
            columns,
            layout: Layout::Content,
        }
    }

    pub(super) const fn with_layout(self, layout: Layout) -> Self {
        Self { layout, ..self }
    }

    /// Returns the header and a line for each row.
    pub(super) fn header_and_rows(&self, rows: &[Row], width: u16, paint: Paint) -> Vec<String> {
        let header = std::iter::once(Style::new().bold());
        let styles = header.chain(rows.iter().map(|row| row.tone.style()));
        self.draw(rows, width)
            .into_iter()
            .zip(styles)
            .map(|(line, style)| painted(&line, style, paint))
            .collect()
    }

    /// Returns a line for each row.
    pub(super) fn rows(&self, rows: &[Row], width: u16, paint: Paint) -> Vec<String> {
        self.header_and_rows(rows, width, paint).split_off(1)
    }

    fn draw(&self, rows: &[Row], width: u16) -> Vec<String> {
        let room = width.saturating_sub(GAP * self.gaps());
        let widths = match self.layout {
            Layout::Content => {
                let uncut = self.filled(rows.iter().map(|row| row.cells.clone()), width);
                self.fitted(&uncut.column_max_content_widths(), room)
            }
            Layout::Fixed => self.fixed(room),
        };
        let mut table = self.filled(
            rows.iter().map(|row| self.without_starts(&row.cells, &widths)),
            width,
        );
        for (index, (column, width)) in table.column_iter_mut().zip(widths).enumerate() {
            let gap = if index + 1 < self.columns.len() { GAP } else { 0 };
            column.set_padding((0, gap));
            column.set_constraint(ColumnConstraint::Absolute(Width::Fixed(width + gap)));
        }
        table.lines().map(|line| line.trim_end().to_owned()).collect()
    }

    fn filled(&self, rows: impl Iterator<Item = Vec<String>>, width: u16) -> comfy_table::Table {
        let mut table = comfy_table::Table::new();
        table
            .load_style(presets::NOTHING)
            .set_content_arrangement(ContentArrangement::Dynamic)
            .set_width(width)
            .set_truncation_indicator("…")
            // Cells contain no control characters; with this delimiter cells are cut at the width, and not between
            // words.
            .set_delimiter('\0')
            .set_header(self.header());
        for cells in rows {
            let mut row = comfy_table::Row::from(cells);
            row.max_height(1);
            table.add_row(row);
        }
        table
    }

    /// Returns the cells, with those of columns that are shortened at their start cut to their width.
    fn without_starts(&self, cells: &[String], widths: &[u16]) -> Vec<String> {
        let cut = |((column, cell), &width): ((&Column, &String), &u16)| {
            let surplus = cell.chars().count().saturating_sub(usize::from(width));
            match column.fit {
                Fit::CutStart if surplus > 0 => {
                    let kept: String = cell.chars().skip(surplus + 1).collect();
                    format!("…{kept}")
                }
                Fit::Whole | Fit::CutEnd | Fit::CutStart => cell.clone(),
            }
        };
        self.columns.iter().zip(cells).zip(widths).map(cut).collect()
    }

    /// Returns the header as one line, cut like a row if the space is needed.
    fn header(&self) -> comfy_table::Row {
        let mut header = comfy_table::Row::from(self.columns.iter().map(|column| column.header));
        header.max_height(1);
        header
    }

    fn gaps(&self) -> u16 {
        u16::try_from(self.columns.len().saturating_sub(1)).expect("a table has a few columns")
    }

    /// Returns widths in advance: each column's own, and the rest for the last one.
    fn fixed(&self, room: u16) -> Vec<u16> {
        let mut widths: Vec<u16> = self.columns.iter().map(|column| column.width).collect();
        if let Some((last, others)) = widths.split_last_mut() {
            *last = room.saturating_sub(others.iter().sum()).max(MIN_WIDTH);
        }
        widths
    }

    /// Returns widths that fit the content. A column that can be cut gets at least its own width if it needs that, and
    /// the neediest get the rest. If even that is too much, the widest columns are narrowed.
    fn fitted(&self, needed: &[u16], room: u16) -> Vec<u16> {
        let own = |(column, &needed): (&Column, &u16)| match column.fit {
            Fit::Whole => needed,
            Fit::CutEnd | Fit::CutStart => needed.min(column.width.max(column.header_width())),
        };
        let mut widths: Vec<u16> = self.columns.iter().zip(needed).map(own).collect();
        // Headers are cut only if the cells of every column are already as narrow as their header.
        while widths.iter().sum::<u16>() > room {
            let widest = |least: &dyn Fn(&Column) -> u16| {
                let columns = self.columns.iter().enumerate();
                let cut = columns.filter(|(_, column)| column.fit != Fit::Whole);
                let cut = cut.filter(|(index, column)| widths[*index] > least(column));
                cut.map(|(index, _)| index).max_by_key(|&index| widths[index])
            };
            let Some(widest) = widest(&Column::header_width).or_else(|| widest(&|_| MIN_WIDTH)) else {
                return widths;
            };
            widths[widest] -= 1;
        }
        let mut left = room - widths.iter().sum::<u16>();
        let mut needy: Vec<usize> = (0..widths.len()).collect();
        needy.sort_by_key(|&index| std::cmp::Reverse(needed[index] - widths[index]));
        for index in needy {
            let more = left.min(needed[index] - widths[index]);
            widths[index] += more;
            left -= more;
        }
        widths
    }
}

fn painted(line: &str, style: Style, paint: Paint) -> String {
    match paint {
        Paint::Plain => line.to_owned(),
        Paint::Ansi => format!("{style}{line}{style:#}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: Table = Table::new(&[
        Column::whole("TIME", 5),
        Column::cut("SERVER", 8),
        Column::cut("COMMAND", 10),
    ]);

    fn row(tone: Tone, server: &str, command: &str) -> Row {
        Row::new(tone, ["12:00".to_owned(), server.to_owned(), command.to_owned()])
    }

    fn drawn(table: &Table, rows: &[Row], width: u16) -> String {
        table.header_and_rows(rows, width, Paint::Plain).join("\n")
    }

    #[test]
    fn a_table_that_fits_is_as_wide_as_its_content() {
        let rows = [
            row(Tone::Ordinary, "a", "npx one"),
            row(Tone::Ordinary, "日本", "npx"),
        ];
        insta::assert_snapshot!(drawn(&TABLE, &rows, 100), @"
        TIME   SERVER  COMMAND
        12:00  a       npx one
        12:00  日本    npx
        ");
    }

    #[test]
    fn what_does_not_fit_is_cut_and_no_line_is_wider() {
        let rows = [row(
            Tone::Ordinary,
            "filesystem",
            "npx -y @modelcontextprotocol/server-filesystem /home/me",
        )];
        insta::assert_snapshot!(drawn(&TABLE, &rows, 40), @"
        TIME   SERVER    COMMAND
        12:00  filesys…  npx -y @modelcontextpr…
        ");
    }

    #[test]
    fn a_path_keeps_its_end_and_a_header_stays_one_line() {
        const PATHS: Table = Table::new(&[Column::whole("TIME", 5), Column::cut_start("PATH OR TOOL", 8)]);
        let cells = ["12:00".to_owned(), "/home/me/server/dist/index.js".to_owned()];
        insta::assert_snapshot!(drawn(&PATHS, &[Row::new(Tone::Ordinary, cells)], 17), @"
        TIME   PATH OR T…
        12:00  …/index.js
        ");
    }

    #[test]
    fn cells_are_cut_before_headers() {
        const NARROW: Table = Table::new(&[
            Column::cut("CONNECTIONS", 4),
            Column::cut("COMMAND", 30),
            Column::cut("SERVER", 30),
        ]);
        let long = "x".repeat(40);
        let rows = [Row::new(Tone::Ordinary, ["1".to_owned(), long.clone(), long])];
        insta::assert_snapshot!(drawn(&NARROW, &rows, 28), @"
        CONNECTIONS  COMMAND  SERVER
        1            xxxxxx…  xxxxx…
        ");
    }

    #[test]
    fn a_growing_table_keeps_its_columns() {
        let growing = TABLE.with_layout(Layout::Fixed);
        let first = growing.header_and_rows(&[row(Tone::Ordinary, "a", "b")], 40, Paint::Plain);
        let more = growing.rows(&[row(Tone::Ordinary, "longer-than-8", "x")], 40, Paint::Plain);
        insta::assert_snapshot!([first, more].concat().join("\n"), @"
        TIME   SERVER    COMMAND
        12:00  a         b
        12:00  longer-…  x
        ");
    }

    #[test]
    fn a_hostile_cell_stays_one_line_of_its_row() {
        let rows = [row(Tone::Ordinary, "a\n12:01  forged", "\u{1b}[2J\u{202e}x")];
        insta::assert_snapshot!(drawn(&TABLE, &rows, 100), @r"
        TIME   SERVER            COMMAND
        12:00  a\n12:01  forged  \u{1b}[2J\u{202e}x
        ");
    }

    #[test]
    fn rows_have_the_color_of_their_tone() {
        let rows = [
            row(Tone::Ordinary, "a", ""),
            row(Tone::Notable, "b", ""),
            row(Tone::Alarming, "c", ""),
        ];
        let painted = TABLE.rows(&rows, 40, Paint::Ansi);
        assert_eq!(
            painted,
            [
                "12:00  a",
                "\u{1b}[33m12:00  b\u{1b}[0m",
                "\u{1b}[1m\u{1b}[31m12:00  c\u{1b}[0m"
            ]
        );
    }
}
