//! Console scripts of installers, without the path of the environment for which they were written.

/// Takes the place of the lines that name the interpreter.
const NEUTRAL: &str = "#!python\n";

/// Returns the text of a script whose first lines only start the environment's own Python, with those lines replaced:
/// the interpreter is pinned by its content, and otherwise no two environments would be equal. Returns `None` if the
/// first lines do anything else: they are hashed as they are then.
pub(crate) fn without_interpreter(text: &str) -> Option<String> {
    let (first, rest) = text.split_once('\n')?;
    let command = first.strip_prefix("#!")?;
    if is_python(command) {
        return Some(format!("{NEUTRAL}{rest}"));
    }
    // Where the path is too long for a `#!` line, installers write a script that is valid for both sh and Python.
    let (second, rest) = rest.split_once('\n')?;
    let (third, rest) = rest.split_once('\n')?;
    let command = second.strip_prefix("'''exec' ")?.strip_suffix(" \"$0\" \"$@\"")?;
    let is_trampoline = first == "#!/bin/sh" && third == "' '''" && is_python(command.trim_matches('"'));
    is_trampoline.then(|| format!("{NEUTRAL}{rest}"))
}

/// Returns whether the text is an absolute path of a `python`, without characters on which a shell acts.
fn is_python(command: &str) -> bool {
    let Some((directory, name)) = command.rsplit_once('/') else {
        return false;
    };
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '/' | '.' | '_' | '-' | '+' | '@' | '~');
    let version = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    directory.starts_with('/')
        && directory.chars().all(plain)
        && version.is_some_and(|version| version.chars().all(|c| c == '.' || c.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("#!/a/bin/python3\nimport x\n" => Some("#!python\nimport x\n".to_owned()); "shebang")]
    #[test_case("#!/a/bin/python3.11\nimport x\n" => Some("#!python\nimport x\n".to_owned()); "version")]
    #[test_case("#!/bin/sh\n'''exec' /a/long/bin/python \"$0\" \"$@\"\n' '''\nimport x\n" => Some("#!python\nimport x\n".to_owned()); "trampoline")]
    #[test_case("#!/bin/sh\n'''exec' \"/a/long/bin/python3\" \"$0\" \"$@\"\n' '''\nimport x\n" => Some("#!python\nimport x\n".to_owned()); "quoted trampoline")]
    #[test_case("#!/bin/sh\n'''exec' /a/evil; exec /a/bin/python \"$0\" \"$@\"\n' '''\nimport x\n" => None; "a trampoline with a passenger")]
    #[test_case("#!/bin/sh\n'''exec' /a/$(id)/python \"$0\" \"$@\"\n' '''\nimport x\n" => None; "a substitution")]
    #[test_case("#!/a/bin/python3 -i\nimport x\n" => None; "an option")]
    #[test_case("#!/a/bin/pythonista\nimport x\n" => None; "another program")]
    #[test_case("#!/usr/bin/env python3\nimport x\n" => None; "the same in every environment")]
    #[test_case("import x\n" => None; "no shebang")]
    #[test_case("" => None; "empty")]
    fn interpreters_are_left_out(text: &str) -> Option<String> {
        without_interpreter(text)
    }
}
