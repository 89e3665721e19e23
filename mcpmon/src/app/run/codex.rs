//! Codex: it reads no variable with the address of its models, but takes settings as arguments.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

/// The program's name.
pub(super) const PROGRAM: &str = "codex";
/// The package of the program.
const PACKAGE: &str = "@openai/codex";
/// Launchers whose first argument that is no option is the package; the arguments after it are for the package's
/// program.
const LAUNCHERS: [&str; 3] = ["bunx", "npx", "pnpx"];

/// Returns the setting by which it uses OpenAI's models at `url`.
pub(super) fn openai(url: &str) -> String {
    format!("openai_base_url=\"{url}\"")
}

/// Adds these settings to the arguments of `program`, if it is Codex or a launcher of Codex, and they are not there
/// already. Of two settings with one key the last counts, so these come after the user's.
pub(super) fn told(program: &OsStr, mut arguments: Vec<OsString>, settings: &[String]) -> Vec<OsString> {
    let Some(place) = place(program, &arguments) else {
        return arguments;
    };
    let place = place + own_options(&arguments[place..]);
    for setting in settings.iter().rev().map(OsString::from) {
        if !arguments.contains(&setting) {
            arguments.splice(place..place, ["-c".into(), setting]);
        }
    }
    arguments
}

/// Returns the number of arguments up to the last one that gives a setting.
fn own_options(arguments: &[OsString]) -> usize {
    let before_words = arguments.iter().take_while(|word| *word != "--");
    let end = |(at, word): (usize, &OsString)| match word.to_str() {
        Some("-c" | "--config") => Some(at + 2),
        Some(word) if word.starts_with("--config=") => Some(at + 1),
        Some(word) if word.starts_with("-c") => Some(at + 1),
        Some(_) | None => None,
    };
    let ends = before_words.enumerate().filter_map(end);
    ends.last().map_or(0, |end| end.min(arguments.len()))
}

/// Returns the position at which the arguments of Codex begin; `None` for another program.
pub(super) fn place(program: &OsStr, arguments: &[OsString]) -> Option<usize> {
    let name = Path::new(program).file_stem()?;
    if name == PROGRAM {
        return Some(0);
    }
    let words: Vec<&str> = arguments.iter().map_while(|word| word.to_str()).collect();
    let is_launcher = LAUNCHERS.iter().any(|launcher| name == *launcher);
    let from = match (name.to_str(), words.first()) {
        (Some("pnpm"), Some(&"dlx")) => 1,
        _ if is_launcher => 0,
        _ => return None,
    };
    let first = words[from..].iter().position(|word| !word.starts_with('-'))?;
    let package = words[from + first].strip_prefix(PACKAGE)?;
    let is_option = from + first > 0 && matches!(words[from + first - 1], "-p" | "--package");
    match (package, is_option) {
        ("", true) => {
            let program = words[from + first + 1..]
                .iter()
                .position(|word| *word == PROGRAM)?;
            Some(from + first + program + 2)
        }
        ("", false) => Some(from + first + 1),
        _ if package.starts_with('@') && !is_option => Some(from + first + 1),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("codex exec hi", "codex -c openai_base_url=\"u\" exec hi"; "itself")]
    #[test_case("/usr/lib/node_modules/.bin/codex.js exec", "/usr/lib/node_modules/.bin/codex.js -c openai_base_url=\"u\" exec"; "its script")]
    #[test_case("npx -y @openai/codex exec", "npx -y @openai/codex -c openai_base_url=\"u\" exec"; "its package")]
    #[test_case("npx @openai/codex@1.2", "npx @openai/codex@1.2 -c openai_base_url=\"u\""; "a version of it")]
    #[test_case("npx -p @openai/codex codex exec", "npx -p @openai/codex codex -c openai_base_url=\"u\" exec"; "its program of its package")]
    #[test_case("pnpm dlx @openai/codex exec", "pnpm dlx @openai/codex -c openai_base_url=\"u\" exec"; "by pnpm")]
    #[test_case("codex -c openai_base_url=\"u\" exec", "codex -c openai_base_url=\"u\" exec"; "told already")]
    #[test_case("codex -c a=1 exec -c b=2 hi", "codex -c a=1 exec -c b=2 -c openai_base_url=\"u\" hi"; "behind settings of the user's")]
    #[test_case("codex --config=a=1 exec", "codex --config=a=1 -c openai_base_url=\"u\" exec"; "behind a long setting")]
    #[test_case("codex -ca=1 exec", "codex -ca=1 -c openai_base_url=\"u\" exec"; "behind an attached setting")]
    #[test_case("codex exec -- -c x", "codex -c openai_base_url=\"u\" exec -- -c x"; "a prompt that looks like a setting")]
    #[test_case("codex-review x", "codex-review x"; "another program")]
    #[test_case("npx @openai/codex-sdk x", "npx @openai/codex-sdk x"; "another package")]
    #[test_case("npx other @openai/codex", "npx other @openai/codex"; "a word for another package")]
    #[test_case("npx -p @openai/codex other", "npx -p @openai/codex other"; "another program of its package")]
    #[test_case("pnpm add @openai/codex", "pnpm add @openai/codex"; "installed only")]
    fn it_is_told_by_its_command(line: &str, expected: &str) {
        let mut words = line.split(' ').map(OsString::from);
        let program = words.next().expect("a program");
        let arguments = told(&program, words.collect(), &[openai("u")]);
        let line: Vec<OsString> = std::iter::once(program).chain(arguments).collect();
        assert_eq!(line.join(OsStr::new(" ")), OsStr::new(expected));
    }
}
