//! Codex: it reads no variable for where its models are, but takes settings as words of its command.

use std::{
    ffi::{OsStr, OsString},
    path::Path,
};

/// What it is called.
pub(super) const PROGRAM: &str = "codex";
/// The package that it comes in.
const PACKAGE: &str = "@openai/codex";
/// Launchers for which the first word that is no option is the package, and what follows is for its program.
const LAUNCHERS: [&str; 3] = ["bunx", "npx", "pnpx"];

/// The arguments of `program` with the words by which Codex speaks to the model at `url`, where it is Codex or a launcher
/// of it; as they are where it is neither, or where they are there already.
pub(super) fn told(program: &OsStr, mut arguments: Vec<OsString>, url: &str) -> Vec<OsString> {
    let setting = OsString::from(format!("openai_base_url=\"{url}\""));
    if let Some(place) = place(program, &arguments).filter(|_| !arguments.contains(&setting)) {
        arguments.splice(place..place, ["-c".into(), setting]);
    }
    arguments
}

/// Where its own arguments begin.
fn place(program: &OsStr, arguments: &[OsString]) -> Option<usize> {
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
    #[test_case("codex-review x", "codex-review x"; "another program")]
    #[test_case("npx @openai/codex-sdk x", "npx @openai/codex-sdk x"; "another package")]
    #[test_case("npx other @openai/codex", "npx other @openai/codex"; "a word for another package")]
    #[test_case("npx -p @openai/codex other", "npx -p @openai/codex other"; "another program of its package")]
    #[test_case("pnpm add @openai/codex", "pnpm add @openai/codex"; "installed only")]
    fn it_is_told_by_its_command(line: &str, expected: &str) {
        let mut words = line.split(' ').map(OsString::from);
        let program = words.next().expect("a program");
        let arguments = told(&program, words.collect(), "u");
        let line: Vec<OsString> = std::iter::once(program).chain(arguments).collect();
        assert_eq!(line.join(OsStr::new(" ")), OsStr::new(expected));
    }
}
