//! Desktop notifications that a call waits for a person.

use std::{
    env,
    path::Path,
    process::{Command, Stdio},
    thread,
};

use mcpmon_model::HeldCall;

/// The program that shows notifications, by its absolute path: one on the PATH of an agent could be another program.
const PROGRAM: &str = "/usr/bin/notify-send";
/// Most characters of a text that are shown.
const MAX_SHOWN: usize = 200;

/// Shows that a call waits, if this user has a desktop. Root has none.
pub(super) fn notify(held: &HeldCall) {
    let has_desktop = env::var_os("DBUS_SESSION_BUS_ADDRESS").is_some();
    if nix::unistd::geteuid().is_root() || !has_desktop || !Path::new(PROGRAM).exists() {
        return;
    }
    let mut command = Command::new(PROGRAM);
    command
        .args(arguments(held))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    // A thread, because the desktop may not answer.
    let shown = thread::Builder::new().spawn(move || {
        if let Err(error) = command.status() {
            tracing::debug!(%error, "no notification is shown");
        }
    });
    if let Err(error) = shown {
        tracing::debug!(%error, "no notification is shown");
    }
}

fn arguments(held: &HeldCall) -> Vec<String> {
    let body = format!(
        "mcpmon approvals show {}\n{} of {}: {}",
        held.id, held.tool, held.identity.server, held.reason
    );
    vec![
        "--app-name=mcpmon".to_owned(),
        "--urgency=critical".to_owned(),
        "--".to_owned(),
        "A tool call waits for you".to_owned(),
        shown(&body),
    ]
}

/// Returns a text without markup and invisible characters.
fn shown(text: &str) -> String {
    let mut plain = String::new();
    for c in text.chars().take(MAX_SHOWN) {
        match c {
            '&' => plain.push_str("&amp;"),
            '<' => plain.push_str("&lt;"),
            '>' => plain.push_str("&gt;"),
            '\n' => plain.push('\n'),
            _ if c.is_control() => plain.push(' '),
            _ => plain.push(c),
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    use mcpmon_model::{Digest, PinKey, ServerId, Timestamp};

    use super::*;

    #[test]
    fn a_notification_is_neither_an_option_nor_markup() {
        let held = HeldCall {
            id: "abc1".to_owned(),
            identity: PinKey {
                server: ServerId::new("files").expect("an id"),
                name: "files".to_owned(),
                uid: 1000,
            },
            session: None,
            tool: "--icon=x <b>\u{1b}".to_owned(),
            arguments: "{}".to_owned(),
            arguments_hash: Digest::of(b"{}"),
            rule: "ask".to_owned(),
            other_rules: Vec::new(),
            reason: "it is dear".to_owned(),
            since: Timestamp(0),
            expires: Timestamp(1),
        };
        let arguments = arguments(&held);
        let ends = arguments.iter().position(|argument| argument == "--");
        assert_eq!(ends, Some(2), "no option follows: {arguments:?}");
        assert_eq!(
            arguments.last().map(String::as_str),
            Some("mcpmon approvals show abc1\n--icon=x &lt;b&gt;  of files: it is dear")
        );
    }
}
