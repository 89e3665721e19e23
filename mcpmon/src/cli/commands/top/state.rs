//! The state of the view: what is shown and selected. It changes by keys and news; nothing is read or written here.

use super::{
    pane::{Listed, Pane, PaneEntry, PaneQuestion, PaneSubject},
    snapshot::Snapshot,
    wrap,
};

/// Most characters of a filter.
const MAX_FILTER: usize = 64;

/// The keys that are used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Press {
    Character(char),
    Enter,
    Escape,
    Backspace,
    Up,
    Down,
    PageUp,
    PageDown,
    Home,
    End,
    Next,
    Previous,
    Interrupt,
}

/// A request to the worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Request {
    Quit,
    /// Read all of a subject.
    Open(PaneSubject),
    /// Carry out a person's decision.
    Answer(Answer),
    /// Stop reading, or start again.
    Freeze(bool),
}

/// A person's decision on a question.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    pub(super) question: PaneQuestion,
    pub(super) is_allowed: bool,
}

/// The element in front of the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Front {
    /// No element.
    List,
    /// The line for a filter.
    Filter,
    Help {
        scroll: usize,
    },
    /// A page with all of an entry.
    Page {
        lines: Vec<String>,
        scroll: usize,
    },
    /// The question whether a decision is meant.
    Confirm(Answer),
}

/// The view.
#[derive(Clone, Debug)]
pub(super) struct ViewState {
    pub(super) pane: Pane,
    pub(super) front: Front,
    pub(super) filter: String,
    pub(super) is_frozen: bool,
    /// The outcome of the latest request.
    pub(super) message: Option<String>,
    pub(super) snapshot: Snapshot,
    /// The list of the pane.
    pub(super) list: Listed,
    cursors: [Cursor; Pane::ALL.len()],
    width: u16,
    height: u16,
}

/// The position in one pane.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cursor {
    order: usize,
    index: usize,
    /// The selected entry, if one was chosen: it stays selected when others arrive.
    subject: Option<PaneSubject>,
}

/// Lines around the list: state, notes, tabs, header, keys.
pub(super) const LINES_AROUND: u16 = 5;

/// Text of the help.
pub(super) const HELP: &str = "\
1 to 6, Tab, ← →   another list
↑ ↓ PgUp PgDn      another row (also k and j); Home and End
Enter              all of a row: the event, its rule, and what would allow it
Esc                back; in the list: the filter is removed
/                  show only rows that contain a text
s                  another order
Space              freeze, and go on with what there is by then
a, d               allow or deny what waits in list 6, after a confirmation
?                  this help
q, Ctrl-C          quit

SEEN BY: `wrapper` and `proxy` see and judge the messages of a server, `kernel` only its processes and connections.
MEMORY counts what processes share for each of them. CPU% is the share of one processor since the last look.
A server that runs and has no MEMORY is of a user whose processes you do not see, or ended while nobody watched.
CALLS/S is over the last ten seconds.";

impl ViewState {
    pub(super) fn new(snapshot: Snapshot, width: u16, height: u16) -> Self {
        let pane = Pane::Servers;
        Self {
            list: snapshot.list(pane),
            pane,
            front: Front::List,
            filter: String::new(),
            is_frozen: false,
            message: None,
            snapshot,
            cursors: Default::default(),
            width,
            height,
        }
    }

    /// Sets the size of the terminal.
    pub(super) fn resize(&mut self, width: u16, height: u16) {
        (self.width, self.height) = (width, height);
    }

    /// Takes a new snapshot.
    pub(super) fn update(&mut self, snapshot: Snapshot) {
        if self.is_frozen {
            return;
        }
        self.snapshot = snapshot;
        self.relist();
    }

    /// Opens a page with what was read about a subject.
    pub(super) fn open(&mut self, lines: Vec<String>) {
        self.message = None;
        self.front = Front::Page { lines, scroll: 0 };
    }

    /// Shows the outcome of a request.
    pub(super) fn tell(&mut self, message: String) {
        self.message = Some(message);
    }

    /// Returns the entries that are shown, in their order.
    pub(super) fn shown(&self) -> Vec<&PaneEntry> {
        self.list.shown(&self.filter, self.cursor().order)
    }

    /// Returns the index of the selected row.
    pub(super) fn selected(&self) -> usize {
        self.cursor().index
    }

    /// Returns the name of the current order.
    pub(super) fn order(&self) -> &'static str {
        let orders = self.pane.orders();
        orders.get(self.cursor().order).copied().unwrap_or_default()
    }

    /// Returns the number of rows that fit.
    pub(super) fn page(&self) -> usize {
        usize::from(self.height.saturating_sub(LINES_AROUND)).max(1)
    }

    /// Handles a key.
    pub(super) fn press(&mut self, press: Press) -> Option<Request> {
        if press == Press::Interrupt {
            return Some(Request::Quit);
        }
        match std::mem::replace(&mut self.front, Front::List) {
            Front::List => self.press_in_list(press),
            Front::Filter => {
                self.press_in_filter(press);
                None
            }
            Front::Help { scroll } => {
                let lines = wrap::lines(HELP.lines(), self.width).len();
                if let Some(scroll) = self.scrolled(press, scroll, lines) {
                    self.front = Front::Help { scroll };
                }
                None
            }
            Front::Page { lines, scroll } => {
                let count = wrap::lines(lines.iter().map(String::as_str), self.width).len();
                if let Some(scroll) = self.scrolled(press, scroll, count) {
                    self.front = Front::Page { lines, scroll };
                }
                None
            }
            Front::Confirm(answer) => {
                if let Press::Character('y' | 'Y') = press {
                    return Some(Request::Answer(answer));
                }
                self.message = Some("nothing was answered".to_owned());
                None
            }
        }
    }

    fn press_in_list(&mut self, press: Press) -> Option<Request> {
        self.message = None;
        match press {
            Press::Character('q') => return Some(Request::Quit),
            Press::Character('?') => self.front = Front::Help { scroll: 0 },
            Press::Character('/') => self.front = Front::Filter,
            Press::Character('s') => {
                let orders = self.pane.orders().len();
                let cursor = self.cursor_mut();
                cursor.order = (cursor.order + 1) % orders;
                self.find_selected();
            }
            Press::Character(' ') => {
                self.is_frozen = !self.is_frozen;
                return Some(Request::Freeze(self.is_frozen));
            }
            Press::Character('a') => self.confirm(true),
            Press::Character('d') => self.confirm(false),
            Press::Character(digit @ '1'..='9') => {
                let index = digit.to_digit(10).map_or(0, |digit| digit as usize - 1);
                if let Some(pane) = Pane::ALL.get(index) {
                    self.show(*pane);
                }
            }
            Press::Next => self.step(1),
            Press::Previous => self.step(Pane::ALL.len() - 1),
            Press::Character('j') | Press::Down => self.select(self.selected().saturating_add(1)),
            Press::Character('k') | Press::Up => self.select(self.selected().saturating_sub(1)),
            Press::PageDown => self.select(self.selected().saturating_add(self.page())),
            Press::PageUp => self.select(self.selected().saturating_sub(self.page())),
            Press::Home => self.select(0),
            Press::End => self.select(usize::MAX),
            Press::Enter => {
                let selected = self.selected();
                return self
                    .shown()
                    .get(selected)
                    .map(|entry| Request::Open(entry.subject.clone()));
            }
            Press::Escape => {
                self.filter.clear();
                self.find_selected();
            }
            Press::Backspace | Press::Character(_) | Press::Interrupt => {}
        }
        None
    }

    fn press_in_filter(&mut self, press: Press) {
        match press {
            Press::Enter => return,
            Press::Escape => {
                self.filter.clear();
                return self.find_selected();
            }
            Press::Backspace => {
                self.filter.pop();
            }
            Press::Character(character) if self.filter.chars().count() < MAX_FILTER => {
                self.filter.push(character);
            }
            Press::Character(_)
            | Press::Up
            | Press::Down
            | Press::PageUp
            | Press::PageDown
            | Press::Home
            | Press::End
            | Press::Next
            | Press::Previous
            | Press::Interrupt => {}
        }
        self.front = Front::Filter;
        self.find_selected();
    }

    /// Returns the first line of a page that is shown after a key. Returns `None` if the page is closed.
    fn scrolled(&self, press: Press, scroll: usize, lines: usize) -> Option<usize> {
        // A page does not have the list's header, so it has one more line.
        let page = self.page() + 1;
        let scroll = match press {
            Press::Escape | Press::Enter | Press::Character('q' | '?') => return None,
            Press::Character('j') | Press::Down => scroll.saturating_add(1),
            Press::Character('k') | Press::Up => scroll.saturating_sub(1),
            Press::PageDown | Press::Character(' ') => scroll.saturating_add(page),
            Press::PageUp => scroll.saturating_sub(page),
            Press::Home => 0,
            Press::End => usize::MAX,
            Press::Character(_) | Press::Backspace | Press::Next | Press::Previous | Press::Interrupt => {
                scroll
            }
        };
        Some(scroll.min(lines.saturating_sub(page)))
    }

    fn confirm(&mut self, is_allowed: bool) {
        let selected = self.selected();
        let question = self
            .shown()
            .get(selected)
            .and_then(|entry| entry.question.clone());
        match question {
            Some(question) => {
                self.front = Front::Confirm(Answer { question, is_allowed });
            }
            None if self.pane == Pane::Approvals => {
                self.message = Some("this does not wait for an answer".to_owned());
            }
            None => self.message = Some("what waits for an answer is in list 6".to_owned()),
        }
    }

    fn step(&mut self, by: usize) {
        let index = (self.pane.index() + by) % Pane::ALL.len();
        self.show(Pane::ALL[index]);
    }

    fn show(&mut self, pane: Pane) {
        self.pane = pane;
        self.relist();
    }

    fn select(&mut self, index: usize) {
        let shown = self.shown();
        let index = index.min(shown.len().saturating_sub(1));
        // If the first row is selected, new first rows are selected when they arrive.
        let subject = shown
            .get(index)
            .filter(|_| index > 0)
            .map(|entry| entry.subject.clone());
        let cursor = self.cursor_mut();
        (cursor.index, cursor.subject) = (index, subject);
    }

    fn relist(&mut self) {
        self.list = self.snapshot.list(self.pane);
        self.find_selected();
    }

    /// Finds the selected entry, which may have moved or gone.
    fn find_selected(&mut self) {
        let subject = self.cursor().subject.clone();
        let shown = self.shown();
        let last = shown.len().saturating_sub(1);
        let found = subject.and_then(|subject| shown.iter().position(|entry| entry.subject == subject));
        let cursor = self.cursor_mut();
        cursor.index = found.unwrap_or_else(|| match cursor.subject {
            Some(_) => cursor.index.min(last),
            None => 0,
        });
    }

    fn cursor(&self) -> &Cursor {
        &self.cursors[self.pane.index()]
    }

    fn cursor_mut(&mut self) -> &mut Cursor {
        &mut self.cursors[self.pane.index()]
    }
}
