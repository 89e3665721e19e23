//! The terminal: prepared, drawn on, read from, and restored in every case.

use std::{io, os::fd::AsFd as _, time::Duration};

use nix::{
    poll::{PollFd, PollFlags, PollTimeout, poll},
    sys::{
        signal::{SigSet, Signal, raise},
        signalfd::{SfdFlags, SignalFd},
    },
};
use ratatui::{
    DefaultTerminal,
    crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers},
};

use super::{
    state::{Press, Request, ViewState},
    view,
    worker::{News, Worker},
};
use crate::cli::{CliError, output::Paint};

/// The time after which news and the size are checked if no key is pressed, milliseconds.
const POLL_MS: u16 = 100;

/// Signals that end the program, after the terminal was restored.
const ENDING: [Signal; 4] = [Signal::SIGTERM, Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT];

/// Blocks the signals that [`show`] handles. Must be called before any thread starts, because threads inherit this.
pub(super) fn prepare() -> Result<(), CliError> {
    ending().thread_block().map_err(io::Error::from)?;
    Ok(())
}

fn ending() -> SigSet {
    ENDING.into_iter().collect()
}

/// Shows the state and its changes until a key or a signal ends it.
pub(super) fn show(mut state: ViewState, worker: Worker, paint: Paint) -> Result<(), CliError> {
    let signals = SignalFd::with_flags(&ending(), SfdFlags::SFD_NONBLOCK | SfdFlags::SFD_CLOEXEC);
    let signals = signals.map_err(io::Error::from)?;
    // The terminal is restored after a panic, too.
    let terminal = ratatui::try_init();
    let shown = terminal.and_then(|terminal| draw_all(terminal, &mut state, &worker, paint, &signals));
    let restored = ratatui::try_restore();
    let ended = shown?;
    restored?;
    worker.finish();
    if let Some(signal) = ended {
        // Ends as the signal would have ended the program.
        ending().thread_unblock().map_err(io::Error::from)?;
        raise(signal).map_err(io::Error::from)?;
    }
    Ok(())
}

fn draw_all(
    mut terminal: DefaultTerminal,
    state: &mut ViewState,
    worker: &Worker,
    paint: Paint,
    signals: &SignalFd,
) -> io::Result<Option<Signal>> {
    loop {
        let size = terminal.size()?;
        state.resize(size.width, size.height);
        terminal.draw(|frame| view::draw(state, paint, frame))?;
        loop {
            if let Some(signal) = signals.read_signal()? {
                return Ok(i32::try_from(signal.ssi_signo)
                    .ok()
                    .and_then(|number| Signal::try_from(number).ok()));
            }
            let has_news = take_news(state, worker);
            if wait(signals, if has_news { 0 } else { POLL_MS })? {
                return Ok(None);
            }
            if event::poll(Duration::ZERO)? {
                match event::read()? {
                    Event::Key(key) => match pressed(key).and_then(|press| state.press(press)) {
                        Some(Request::Quit) => return Ok(None),
                        Some(request) => worker.ask(request),
                        None => {}
                    },
                    Event::Resize(..) => {}
                    Event::FocusGained | Event::FocusLost | Event::Mouse(_) | Event::Paste(_) => continue,
                }
                break;
            }
            if has_news {
                break;
            }
        }
    }
}

/// Waits for a key or a signal, and returns whether the terminal is gone.
///
/// crossterm reads forever from a terminal that is gone, so it is only used if there is one.
fn wait(signals: &SignalFd, milliseconds: u16) -> io::Result<bool> {
    let stdin = io::stdin();
    let mut ports = [
        PollFd::new(stdin.as_fd(), PollFlags::POLLIN),
        PollFd::new(signals.as_fd(), PollFlags::POLLIN),
    ];
    match poll(&mut ports, PollTimeout::from(milliseconds)) {
        Ok(_) | Err(nix::Error::EINTR) => {}
        Err(error) => return Err(error.into()),
    }
    let gone = PollFlags::POLLHUP | PollFlags::POLLERR | PollFlags::POLLNVAL;
    Ok(ports[0].revents().is_some_and(|events| events.intersects(gone)))
}

fn take_news(state: &mut ViewState, worker: &Worker) -> bool {
    let mut is_any = false;
    while let Some(news) = worker.news() {
        is_any = true;
        match news {
            News::Snapshot(snapshot) => state.update(*snapshot),
            News::Page(lines) => state.open(lines),
            News::Message(message) => state.tell(message),
        }
    }
    is_any
}

#[expect(clippy::wildcard_enum_match_arm, reason = "other keys do nothing")]
fn pressed(key: KeyEvent) -> Option<Press> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let is_control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c') if is_control => Press::Interrupt,
        KeyCode::Char(_) if is_control || key.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(character) => Press::Character(character),
        KeyCode::Enter => Press::Enter,
        KeyCode::Esc => Press::Escape,
        KeyCode::Backspace => Press::Backspace,
        KeyCode::Up => Press::Up,
        KeyCode::Down => Press::Down,
        KeyCode::PageUp => Press::PageUp,
        KeyCode::PageDown => Press::PageDown,
        KeyCode::Home => Press::Home,
        KeyCode::End => Press::End,
        KeyCode::Tab | KeyCode::Right => Press::Next,
        KeyCode::BackTab | KeyCode::Left => Press::Previous,
        _ => return None,
    })
}
