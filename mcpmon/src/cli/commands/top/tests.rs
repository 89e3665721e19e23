//! Tests of the view: from states and keys to pictures and requests.

use mcpmon_model::{ApprovalState, Direction, Event, Timestamp};
use mcpmon_store::{Destination as _, StoreEntry, sample};
use ratatui::{Terminal, backend::TestBackend};
use test_case::test_case;

use super::{
    pane::{Pane, PaneQuestion, PaneSubject},
    snapshot::Snapshot,
    source::Source,
    state::{Answer, Front, Press, Request, ViewState},
    view,
};
use crate::{
    app::resources::Usage,
    cli::{
        Color, Globals,
        commands::{running::SeenBy, scene},
        daemon::Socket,
        output::{Form, Output, Paint},
    },
};

fn events() -> Vec<Event> {
    vec![
        sample::started("files", 100),
        sample::at(1, sample::started("weather", 200)),
        sample::at(2, sample::called("read_file", 1)),
        sample::at(
            3,
            sample::intercepted("write_file", 2, mcpmon_model::Action::Block),
        ),
        sample::at(4, sample::called("list", 3)),
        sample::at(
            5,
            sample::connection("weather", 200, "192.0.2.1:443", Direction::ServerEgress),
        ),
        sample::at(6, sample::detected("helper")),
        sample::at(7, sample::approval("files:a", "mcpmon", ApprovalState::Requested)),
        sample::at(8, sample::approval("files:b", "ann", ApprovalState::Granted)),
    ]
}

/// Returns a snapshot of a store with these events, at a fixed time.
fn snapshot(events: Vec<Event>) -> Snapshot {
    let (directory, mut store) = sample::store();
    let member = sample::member("review", "files", 100);
    store.join(Timestamp(sample::NOON), &member).unwrap();
    sample::fill(&mut store, events);
    let globals = Globals {
        config: None,
        db: Some(directory.path().join("mcpmon.db")),
        json: false,
        color: Color::Never,
    };
    let socket = Socket {
        path: directory.path().join("no-daemon"),
    };
    let mut snapshot = Source::open(&globals, socket).unwrap().look().unwrap();
    snapshot.at = Timestamp(sample::NOON + 9 * sample::SECOND);
    snapshot.store = "/home/me/.local/state/mcpmon/mcpmon.db".into();
    // Processes of the test host may have the sample's ids.
    for server in &mut snapshot.servers {
        (server.usage, server.load, server.seen_by) = (None, None, SeenBy::Nobody);
    }
    if let Some(files) = snapshot.servers.first_mut() {
        files.seen_by = SeenBy::Wrapper;
        files.load = Some(125);
        files.usage = Some(Usage {
            processes: 3,
            memory: 64 << 20,
            processor: std::time::Duration::from_millis(1500),
        });
    }
    snapshot
}

fn state(events: Vec<Event>, pane: Pane) -> ViewState {
    let mut state = ViewState::new(snapshot(events), 80, 24);
    let digit = char::from_digit(u32::try_from(pane.index()).unwrap() + 1, 10).unwrap();
    assert_eq!(state.press(Press::Character(digit)), None);
    assert_eq!(state.pane, pane);
    state
}

fn typed(state: &mut ViewState, text: &str) {
    for character in text.chars() {
        assert_eq!(state.press(Press::Character(character)), None);
    }
}

fn drawn(state: &ViewState, width: u16, height: u16, paint: Paint) -> Terminal<TestBackend> {
    let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
    terminal.draw(|frame| view::draw(state, paint, frame)).unwrap();
    terminal
}

/// Returns the picture without the blanks at the ends of lines.
fn picture(state: &mut ViewState, width: u16, height: u16) -> String {
    state.resize(width, height);
    let terminal = drawn(state, width, height, Paint::Plain);
    let lines = terminal.backend().to_string();
    let lines = lines.lines().map(|line| line.trim_matches('"').trim_end());
    lines.collect::<Vec<_>>().join("\n")
}

#[test_case(Pane::Sessions)]
#[test_case(Pane::Servers)]
#[test_case(Pane::Calls)]
#[test_case(Pane::Connections)]
#[test_case(Pane::Detections)]
#[test_case(Pane::Approvals)]
fn every_list_fits_a_small_terminal_and_uses_a_large_one(pane: Pane) {
    let mut state = state(events(), pane);
    insta::assert_snapshot!(format!("80x24-{}", pane.title()), picture(&mut state, 80, 24));
    insta::assert_snapshot!(format!("120x40-{}", pane.title()), picture(&mut state, 120, 40));
}

#[test]
fn the_help_names_every_key_and_is_scrolled_where_it_is_longer() {
    let mut state = state(events(), Pane::Servers);
    state.press(Press::Character('?'));
    insta::assert_snapshot!("80x24-help", picture(&mut state, 80, 24));
    state.resize(80, 10);
    state.press(Press::End);
    let Front::Help { scroll } = state.front else {
        panic!("{:?}", state.front);
    };
    assert!(scroll > 0);
    assert!(picture(&mut state, 80, 10).contains("CALLS/S is over the last ten seconds."));
    state.press(Press::Escape);
    assert_eq!(state.front, Front::List);
}

#[test]
fn no_terminal_is_too_small_to_draw_on() {
    for front in ['1', '?', '/'] {
        let mut state = state(events(), Pane::Calls);
        state.press(Press::Character(front));
        for (width, height) in [(1, 1), (2, 3), (10, 4), (80, 5), (300, 100)] {
            state.resize(width, height);
            drawn(&state, width, height, Paint::Ansi);
        }
    }
}

#[test]
fn hostile_names_are_shown_and_not_obeyed() {
    let mut hostile = sample::called("\u{1b}[2Jdelete\u{202e}", 1);
    hostile.reason = Some("日本\u{9b}31m".to_owned());
    let mut state = state(vec![hostile], Pane::Calls);
    let picture = picture(&mut state, 120, 24);
    assert!(picture.contains("\\u{1b}[2Jdelete\\u{202e}"), "{picture}");
    assert!(!picture.contains(['\u{1b}', '\u{202e}', '\u{9b}']), "{picture}");
    state.tell("\u{1b}]0;owned".to_owned());
    assert!(self::picture(&mut state, 80, 24).contains("\\u{1b}]0;owned"));
}

#[test]
fn without_color_there_is_none() {
    let state = state(events(), Pane::Detections);
    let colors = |paint| {
        let terminal = drawn(&state, 80, 24, paint);
        let cells = terminal.backend().buffer().content().iter();
        let colored = cells.filter(|cell| cell.fg != ratatui::style::Color::Reset);
        colored.count()
    };
    assert_eq!(colors(Paint::Plain), 0);
    assert!(colors(Paint::Ansi) > 0);
}

#[test]
fn a_filter_shows_what_contains_it_whatever_the_case() {
    let mut state = state(events(), Pane::Calls);
    assert_eq!(state.shown().len(), 3);
    typed(&mut state, "/WRITE");
    assert_eq!(state.shown().len(), 1);
    assert!(picture(&mut state, 80, 24).ends_with("/WRITE▏"));
    state.press(Press::Character('x'));
    assert!(picture(&mut state, 80, 24).contains("no row contains `WRITEx`"));
    state.press(Press::Backspace);
    state.press(Press::Enter);
    assert_eq!((state.shown().len(), &state.front), (1, &Front::List));
    state.press(Press::Escape);
    assert_eq!(state.shown().len(), 3);
}

#[test]
fn the_order_changes_and_comes_round() {
    let mut state = state(events(), Pane::Calls);
    let tools = |state: &ViewState| -> Vec<bool> {
        let shown = state.shown();
        shown
            .iter()
            .map(|entry| entry.row.contains("write_file"))
            .collect()
    };
    assert_eq!(
        (state.order(), tools(&state)),
        ("newest", vec![false, true, false])
    );
    typed(&mut state, "s");
    assert_eq!(
        (state.order(), tools(&state)),
        ("severity", vec![true, false, false])
    );
    typed(&mut state, "ss");
    assert_eq!(state.order(), "newest");
}

#[test]
fn what_is_selected_stays_so_when_others_come() {
    let mut state = state(events(), Pane::Calls);
    state.press(Press::Down);
    let Some(Request::Open(PaneSubject::Event(chosen))) = state.press(Press::Enter) else {
        panic!("an event is opened");
    };
    let mut more = events();
    more.push(sample::at(9, sample::called("another", 4)));
    state.update(snapshot(more));
    assert_eq!(state.selected(), 2);
    assert_eq!(
        state.press(Press::Enter),
        Some(Request::Open(PaneSubject::Event(chosen)))
    );
    state.press(Press::Home);
    state.update(snapshot(events()));
    assert_eq!(state.selected(), 0, "the first row is whatever comes first");
}

#[test]
fn lists_are_scrolled_no_further_than_they_go() {
    let many = (0..60).map(|number| sample::at(number, sample::called(&format!("tool{number}"), 1)));
    let mut state = state(many.collect(), Pane::Calls);
    assert!(picture(&mut state, 80, 24).contains("> 11-20 12:00:59"));
    state.press(Press::End);
    let end = picture(&mut state, 80, 24);
    assert!(end.contains("> 11-20 12:00:00") && end.contains("60/60"), "{end}");
    for (press, selected) in [
        (Press::PageDown, 59),
        (Press::PageUp, 40),
        (Press::Home, 0),
        (Press::Up, 0),
        (Press::PageDown, 19),
    ] {
        state.press(press);
        assert_eq!(state.selected(), selected, "{press:?}");
    }
}

#[test]
fn a_frozen_view_stays_as_it_is() {
    let mut state = state(events(), Pane::Calls);
    assert_eq!(state.press(Press::Character(' ')), Some(Request::Freeze(true)));
    state.update(snapshot(Vec::new()));
    assert_eq!(state.shown().len(), 3);
    assert!(picture(&mut state, 80, 24).contains("FROZEN"));
    assert_eq!(state.press(Press::Character(' ')), Some(Request::Freeze(false)));
    state.update(snapshot(Vec::new()));
    assert_eq!(state.shown().len(), 0);
}

#[test]
fn an_answer_is_given_after_a_confirmation_only() {
    let mut state = state(events(), Pane::Approvals);
    typed(&mut state, "a");
    let question = PaneQuestion {
        subject: "files:a".to_owned(),
        hash: None,
    };
    assert!(picture(&mut state, 80, 24).ends_with("allow files:a? y: yes, any other key: no"));
    assert_eq!(state.press(Press::Enter), None);
    assert_eq!(state.message.as_deref(), Some("nothing was answered"));
    for (key, is_allowed) in [('a', true), ('d', false)] {
        typed(&mut state, &key.to_string());
        let answer = Answer {
            question: question.clone(),
            is_allowed,
        };
        assert_eq!(state.press(Press::Character('y')), Some(Request::Answer(answer)));
    }
    state.press(Press::Down);
    typed(&mut state, "a");
    assert_eq!(state.front, Front::List);
    assert_eq!(state.message.as_deref(), Some("this does not wait for an answer"));
}

#[test]
fn the_definition_that_waits_is_the_one_that_is_answered() {
    let (directory, mut store) = sample::store();
    let record = sample::definition("files", "a", "text");
    let hash = record.seen.hash.to_string();
    store.keep(&[StoreEntry::Definition(record)]).unwrap();
    sample::fill(&mut store, events());
    let globals = Globals {
        config: None,
        db: Some(directory.path().join("mcpmon.db")),
        json: false,
        color: Color::Never,
    };
    let path = directory.path().join("no-daemon");
    let snapshot = Source::open(&globals, Socket { path }).unwrap().look().unwrap();
    let approvals = snapshot.list(Pane::Approvals);
    let questions = approvals
        .entries
        .iter()
        .filter_map(|entry| entry.question.clone());
    let hashes: Vec<_> = questions.map(|question| question.hash).collect();
    assert_eq!(hashes, [Some(hash)]);
}

#[test]
fn a_page_is_wrapped_and_scrolled_and_closed() {
    let mut state = state(events(), Pane::Calls);
    state.open(
        (0..40)
            .map(|number| format!("line {number} {}", "word ".repeat(20)))
            .collect(),
    );
    assert!(picture(&mut state, 80, 24).contains("\nline 0 "));
    state.press(Press::End);
    let end = picture(&mut state, 80, 24);
    assert!(end.contains("line 39 ") && !end.contains("line 0 "), "{end}");
    state.press(Press::Down);
    assert_eq!(picture(&mut state, 80, 24), end);
    state.press(Press::Home);
    assert!(picture(&mut state, 80, 24).contains("\nline 0 "));
    assert_eq!(state.press(Press::Character('q')), None, "it closes the page");
    assert_eq!(state.front, Front::List);
    assert_eq!(state.press(Press::Character('q')), Some(Request::Quit));
    assert_eq!(state.press(Press::Interrupt), Some(Request::Quit));
}

#[test]
fn tabs_are_stepped_through_and_come_round() {
    let mut state = state(events(), Pane::Sessions);
    state.press(Press::Previous);
    assert_eq!(state.pane, Pane::Approvals);
    state.press(Press::Next);
    state.press(Press::Next);
    assert_eq!(state.pane, Pane::Servers);
    typed(&mut state, "9");
    assert_eq!(state.pane, Pane::Servers);
}

#[test]
fn everything_is_printed_once_and_as_json() {
    let printed = |form| {
        let (mut data, mut notes) = (Vec::new(), Vec::new());
        super::print(
            &snapshot(events()),
            &mut Output::plain(&mut data, &mut notes, form),
        )
        .unwrap();
        String::from_utf8(data).unwrap()
    };
    insta::assert_snapshot!("once", printed(Form::Table));
    let json = printed(Form::Json);
    scene::assert_documented("top", false, &json);
    let object: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(object["servers"][0]["memory"], 64 << 20);
    assert_eq!(object["servers"][0]["seen_by"], "wrapper");
    assert_eq!(object["calls"].as_array().map(Vec::len), Some(3));
    assert!(object["servers"][0]["calls_per_second"].is_f64(), "{object}");
}
