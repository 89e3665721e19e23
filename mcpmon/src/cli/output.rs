//! Output of commands: data to one stream and notes to another, as tables or as JSON lines.

use std::{
    io::{self, IsTerminal as _, Write},
    os::fd::AsFd as _,
    time::Duration,
};

use anstream::AutoStream;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use serde_json::{Map, Value};

use super::{
    Globals,
    table::{Layout, Row, Table},
    text,
};

/// Width of a table that is not printed to a terminal.
const DEFAULT_WIDTH: u16 = 100;

/// The use of color.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Color {
    /// On a terminal, unless the environment says otherwise.
    #[default]
    Auto,
    /// Everywhere.
    Always,
    /// Nowhere.
    Never,
}

/// The form of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Table,
    Json,
}

/// The coloring of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Paint {
    Plain,
    Ansi,
}

/// The two streams of a command.
pub struct Output<'a> {
    data: &'a mut dyn Write,
    notes: &'a mut dyn Write,
    /// The options of every command.
    pub(super) globals: &'a Globals,
    pub(super) form: Form,
    pub(super) paint: Paint,
    pub(super) width: u16,
}

impl std::fmt::Debug for Output<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Output")
            .field("form", &self.form)
            .field("paint", &self.paint)
            .field("width", &self.width)
            .finish_non_exhaustive()
    }
}

impl<'a> Output<'a> {
    /// Makes the output that the global options and the terminal ask for.
    pub fn new(data: &'a mut dyn Write, notes: &'a mut dyn Write, globals: &'a Globals) -> Self {
        Self {
            data,
            notes,
            globals,
            form: if globals.json { Form::Json } else { Form::Table },
            paint: paint(globals.color),
            width: width(),
        }
    }

    #[cfg(test)]
    pub(super) fn plain(data: &'a mut dyn Write, notes: &'a mut dyn Write, form: Form) -> Self {
        static GLOBALS: Globals = Globals {
            config: None,
            db: None,
            json: false,
            color: Color::Never,
        };
        Self {
            data,
            notes,
            globals: &GLOBALS,
            form,
            paint: Paint::Plain,
            width: DEFAULT_WIDTH,
        }
    }

    /// Prints one JSON object as a line.
    pub(super) fn json(&mut self, object: &Map<String, Value>) -> io::Result<()> {
        let json = serde_json::to_string(object)?;
        writeln!(self.data, "{}", text::escape_json(&json))
    }

    /// Prints a table with its header.
    pub(super) fn table(&mut self, table: &Table, rows: &[Row]) -> io::Result<()> {
        self.lines(table.header_and_rows(rows, self.width, self.paint))
    }

    /// Prints the beginning of a table that will grow: its columns have fixed widths.
    pub(super) fn growing_table(&mut self, table: &Table, rows: &[Row]) -> io::Result<()> {
        self.lines(
            table
                .with_layout(Layout::Fixed)
                .header_and_rows(rows, self.width, self.paint),
        )
    }

    /// Prints further rows of a growing table.
    pub(super) fn more_rows(&mut self, table: &Table, rows: &[Row]) -> io::Result<()> {
        self.lines(
            table
                .with_layout(Layout::Fixed)
                .rows(rows, self.width, self.paint),
        )
    }

    /// Prints lines that are not a table.
    pub(super) fn text(&mut self, lines: &[String]) -> io::Result<()> {
        lines
            .iter()
            .try_for_each(|line| writeln!(self.data, "{}", text::escape(line.trim_end())))
    }

    /// Prints lines that are safe to show already.
    pub(super) fn safe(&mut self, lines: &[String]) -> io::Result<()> {
        lines
            .iter()
            .try_for_each(|line| writeln!(self.data, "{}", line.trim_end()))
    }

    /// Prints a page whose parts are safe to show already.
    pub(super) fn page(&mut self, page: &str) -> io::Result<()> {
        self.data.write_all(page.as_bytes())
    }

    /// Prints a note to the user, which is not data.
    pub(super) fn note(&mut self, note: &str) -> io::Result<()> {
        writeln!(self.notes, "{}", text::escape(note))
    }

    /// Prints a question; the answer is typed on the same line.
    pub(super) fn prompt(&mut self, question: &str) -> io::Result<()> {
        write!(self.notes, "{}", text::escape(question))?;
        self.notes.flush()
    }

    /// Shows on a terminal what is being done, in place of the text before. An empty text removes it.
    pub(super) fn progress(&mut self, what: &str) -> io::Result<()> {
        write!(self.notes, "\r\x1b[2K{}", text::escape(what))?;
        self.notes.flush()
    }

    /// Flushes the data.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        self.data.flush()
    }

    fn lines(&mut self, lines: Vec<String>) -> io::Result<()> {
        lines.iter().try_for_each(|line| writeln!(self.data, "{line}"))
    }
}

/// Waits. Returns an error if the reader of standard output has closed it meanwhile.
pub(super) fn wait_for(duration: Duration) -> io::Result<()> {
    let stdout = io::stdout();
    let mut descriptors = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
    let timeout = PollTimeout::try_from(duration).unwrap_or(PollTimeout::MAX);
    match poll(&mut descriptors, timeout) {
        Ok(0) | Err(nix::errno::Errno::EINTR) => Ok(()),
        Ok(_) => Err(io::ErrorKind::BrokenPipe.into()),
        Err(errno) => Err(errno.into()),
    }
}

fn paint(color: Color) -> Paint {
    let colored = match color {
        Color::Always => true,
        Color::Never => false,
        Color::Auto => AutoStream::choice(&io::stdout()) != anstream::ColorChoice::Never,
    };
    if colored { Paint::Ansi } else { Paint::Plain }
}

fn width() -> u16 {
    let columns = || std::env::var("COLUMNS").ok()?.parse::<u16>().ok();
    let terminal = || {
        let stdout = io::stdout();
        stdout
            .is_terminal()
            .then(|| terminal_size::terminal_size_of(&stdout))
            .flatten()
            .map(|(terminal_size::Width(width), _)| width)
    };
    let width = columns().or_else(terminal);
    width.filter(|&width| width > 0).unwrap_or(DEFAULT_WIDTH)
}
