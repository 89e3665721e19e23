//! `mcpmon wrap` as clients are set up with it, read without a description of all that can be written there: its client
//! waits for it. Whatever else is written, and every mistake, is read with that description.

use std::{ffi::OsString, path::PathBuf};

use mcpmon_model::ServerId;

use super::Wrap;

/// Parses the arguments after `wrap`, if each option is given at most once and has a value that cannot be
/// anything else.
pub(super) fn wrap(arguments: &[OsString]) -> Option<Wrap> {
    let mut read = Wrap::default();
    let (globals, options) = (&mut read.globals, &mut read.options);
    let mut socket = None;
    let mut arguments = arguments.iter();
    loop {
        let argument = arguments.next()?.to_str()?;
        let mut path = |known: &mut Option<PathBuf>| once(known, arguments.next()?.into());
        match argument {
            "--" => break,
            "--config" => path(&mut globals.config)?,
            "--db" => path(&mut globals.db)?,
            "--socket" => path(&mut socket)?,
            "--server" => once(
                &mut options.server,
                ServerId::new(arguments.next()?.to_str()?).ok()?,
            )?,
            _ => return None,
        }
    }
    options.socket = socket.unwrap_or_else(|| std::mem::take(&mut options.socket));
    options.command = arguments.cloned().collect();
    let values = [&globals.config, &globals.db].into_iter().flatten();
    let is_value = |value: &PathBuf| !matches!(value.as_os_str().as_encoded_bytes(), [] | [b'-', ..]);
    let is_plain = values.chain([&options.socket]).all(is_value)
        && options
            .server
            .as_ref()
            .is_none_or(|server| !server.as_str().starts_with('-'))
        && !options.command.is_empty();
    is_plain.then_some(read)
}

/// Keeps a value, unless there is one.
fn once<T>(known: &mut Option<T>, value: T) -> Option<()> {
    known.is_none().then(|| *known = Some(value))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;

    /// The words that may be combined before the command, valid and not.
    const PARTS: [&str; 14] = [
        "--server",
        "--socket",
        "--config",
        "--db",
        "--server=a",
        "--db=",
        "--json",
        "--",
        "-",
        "-x",
        "",
        "a",
        "b c",
        "--color",
    ];

    #[test]
    fn what_is_plain_is_read_as_with_the_description() {
        let (mut plain, mut others) = (0, 0);
        let parts = || PARTS.into_iter();
        let starts =
            parts().flat_map(|one| parts().flat_map(move |two| parts().map(move |three| [one, two, three])));
        for [one, two, three] in starts {
            for rest in [&["--", "a"][..], &["f", "--", "a", "--db"], &["--"], &[]] {
                let arguments: Vec<OsString> =
                    [one, two, three].iter().chain(rest).map(OsString::from).collect();
                let Some(read) = wrap(&arguments) else {
                    others += 1;
                    continue;
                };
                plain += 1;
                let all = [OsString::from("wrap")].into_iter().chain(arguments);
                let described = Wrap::try_parse_from(all).expect("what is plain is good");
                assert_eq!(format!("{read:?}"), format!("{described:?}"));
            }
        }
        assert!(plain > 100 && others > 1000, "{plain} {others}");
    }

    #[test]
    fn what_clients_are_set_up_with_is_plain() {
        let plain = |text: &str| {
            let arguments: Vec<OsString> = text.split(' ').map(OsString::from).collect();
            wrap(&arguments).is_some()
        };
        assert!(plain("-- server --help"));
        assert!(plain("--server a --socket s --config c --db f -- server"));
        assert!(!plain("--server a --server a -- server"));
        assert!(!plain("--url https://example.com"));
        assert!(!plain("--server a"));
    }
}
