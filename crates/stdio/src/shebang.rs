//! First lines of scripts, and the interpreters that they name.

use std::{
    ffi::{OsStr, OsString},
    os::unix::ffi::OsStrExt as _,
    path::PathBuf,
};

/// Bytes of a file in which the kernel looks for a `#!` line (`BINPRM_BUF_SIZE`).
pub(super) const HEAD: usize = 256;
/// Programs that look their operand up on PATH and execute it.
const ENV: [&str; 2] = ["/usr/bin/env", "/bin/env"];

/// The interpreter line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Shebang {
    /// No interpreter: a binary, which the kernel understands or refuses.
    None,
    /// A program, with everything after it as one argument.
    Interpreter {
        path: PathBuf,
        argument: Option<OsString>,
    },
    /// The program that `env` would look up.
    OnPath {
        name: OsString,
        arguments: Vec<OsString>,
    },
    /// A text without such a line: `execvp(3)` runs it with a shell.
    Text,
}

/// Reads the first [`HEAD`] bytes of a file, as binfmt_script does.
pub(super) fn parse(head: &[u8]) -> Shebang {
    let Some(line) = head.strip_prefix(b"#!") else {
        return match head.is_empty() || head.contains(&0) {
            true => Shebang::None,
            false => Shebang::Text,
        };
    };
    let end = line.iter().position(|byte| matches!(byte, b'\n' | 0));
    let line = trim(&line[..end.unwrap_or(line.len())]);
    let split = line.iter().position(is_blank).unwrap_or(line.len());
    let (interpreter, argument) = (&line[..split], trim(&line[split..]));
    if interpreter.is_empty() {
        return Shebang::Text;
    }
    if ENV.iter().any(|env| interpreter == env.as_bytes())
        && let Some((name, arguments)) = looked_up(argument)
    {
        return Shebang::OnPath { name, arguments };
    }
    Shebang::Interpreter {
        path: PathBuf::from(OsStr::from_bytes(interpreter)),
        argument: (!argument.is_empty()).then(|| OsStr::from_bytes(argument).to_owned()),
    }
}

/// Returns the program that `env` would execute for this argument, if finding it takes no more than splitting words.
fn looked_up(argument: &[u8]) -> Option<(OsString, Vec<OsString>)> {
    let words = match argument.strip_prefix(b"-S") {
        Some(text) if !text.iter().any(|byte| b"\\'\"$#".contains(byte)) => words(text),
        Some(_) => return None,
        None => vec![argument],
    };
    let (name, arguments) = words.split_first()?;
    if name.is_empty() || name.starts_with(b"-") || name.contains(&b'=') {
        return None;
    }
    let owned = |word: &&[u8]| OsStr::from_bytes(word).to_owned();
    Some((owned(name), arguments.iter().map(owned).collect()))
}

fn words(text: &[u8]) -> Vec<&[u8]> {
    text.split(is_blank).filter(|word| !word.is_empty()).collect()
}

fn trim(text: &[u8]) -> &[u8] {
    let start = text.iter().position(|byte| !is_blank(byte)).unwrap_or(text.len());
    let end = text
        .iter()
        .rposition(|byte| !is_blank(byte))
        .map_or(start, |last| last + 1);
    &text[start..end]
}

const fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn interpreter(path: &str, argument: Option<&str>) -> Shebang {
        Shebang::Interpreter {
            path: path.into(),
            argument: argument.map(OsString::from),
        }
    }

    fn on_path(words: &[&str]) -> Shebang {
        Shebang::OnPath {
            name: words[0].into(),
            arguments: words[1..].iter().map(OsString::from).collect(),
        }
    }

    #[test_case("\u{7f}ELF\0" => Shebang::None; "binary")]
    #[test_case("" => Shebang::None; "empty file")]
    #[test_case("echo hello\n" => Shebang::Text; "text")]
    #[test_case("#!\n" => Shebang::Text; "no interpreter")]
    #[test_case("#!/bin/sh\n" => interpreter("/bin/sh", None); "interpreter")]
    #[test_case("#! \t/bin/sh  -e  x \nmore" => interpreter("/bin/sh", Some("-e  x")); "one argument")]
    #[test_case("#!/bin/sh" => interpreter("/bin/sh", None); "no line end")]
    #[test_case("#!python3\n" => interpreter("python3", None); "relative")]
    #[test_case("#!/usr/bin/env node\n" => on_path(&["node"]); "env")]
    #[test_case("#!/usr/bin/env -S node --no-warnings\n" => on_path(&["node", "--no-warnings"]); "env splits")]
    #[test_case("#!/usr/bin/env -Snode -x\n" => on_path(&["node", "-x"]); "env splits without a space")]
    #[test_case("#!/usr/bin/env node x\n" => on_path(&["node x"]); "env does not split")]
    #[test_case("#!/usr/bin/env -S A=b node\n" => interpreter("/usr/bin/env", Some("-S A=b node")); "a variable")]
    #[test_case("#!/usr/bin/env -S node 'a b'\n" => interpreter("/usr/bin/env", Some("-S node 'a b'")); "quotes")]
    #[test_case("#!/usr/bin/env -i node\n" => interpreter("/usr/bin/env", Some("-i node")); "an option")]
    #[test_case("#!/usr/bin/env\n" => interpreter("/usr/bin/env", None); "env alone")]
    #[test_case("#!/opt/env node\n" => interpreter("/opt/env", Some("node")); "another env")]
    fn first_lines(head: &str) -> Shebang {
        parse(head.as_bytes())
    }
}
