//! Console scripts of installers, without the path of the environment for which they were written.

/// Takes the place of the lines that name the interpreter.
const NEUTRAL: &str = "#!python\n";
/// The beginning of the command by which a script of uv finds the interpreter beside itself.
const BESIDE: &str = "'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'";
/// Longest script that an installer writes, in bytes.
const MAX_GENERATED: usize = 4096;
/// The lines of the scripts that installers write, without indentation, apart from those that name the entry point.
const GENERATED: [&str; 16] = [
    "",
    "# -*- coding: utf-8 -*-",
    "# -*- coding:utf-8 -*-",
    "import re",
    "import sys",
    "if __name__ == '__main__':",
    "if __name__ == \"__main__\":",
    r"sys.argv[0] = re.sub(r'(-script\.pyw|\.exe)?$', '', sys.argv[0])",
    r"sys.argv[0] = re.sub(r'(-script\.pyw?|\.exe)?$', '', sys.argv[0])",
    "sys.argv[0] = sys.argv[0].removesuffix('.exe')",
    "sys.argv[0] = sys.argv[0].removesuffix(\".exe\")",
    "if sys.argv[0].endswith(\"-script.pyw\"):",
    "sys.argv[0] = sys.argv[0][:-11]",
    "if sys.argv[0].endswith('.exe'):",
    "elif sys.argv[0].endswith(\".exe\"):",
    "sys.argv[0] = sys.argv[0][:-4]",
];

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
    let is_beside = second
        .strip_prefix(BESIDE)
        .and_then(|command| command.strip_suffix("' \"$0\" \"$@\""))
        .is_some_and(|name| is_python(&format!("/bin/{name}")));
    if first == "#!/bin/sh" && third == "' '''" && is_beside {
        return Some(format!("{NEUTRAL}{rest}"));
    }
    let command = second.strip_prefix("'''exec' ")?.strip_suffix(" \"$0\" \"$@\"")?;
    let is_trampoline = first == "#!/bin/sh" && third == "' '''" && is_python(command.trim_matches('"'));
    is_trampoline.then(|| format!("{NEUTRAL}{rest}"))
}

/// Returns the code that a script of an installer starts, in one form for all installers. `text` is without its
/// interpreter. Returns `None` if a line does anything else.
pub(crate) fn entry_point(text: &str) -> Option<String> {
    let text = text
        .strip_prefix(NEUTRAL)
        .filter(|text| text.len() <= MAX_GENERATED)?;
    let (mut imported, mut called) = (None, None);
    for line in text.lines().map(str::trim) {
        if GENERATED.contains(&line) {
            continue;
        }
        if let Some(import) = line.strip_prefix("from ") {
            let (module, name) = import.split_once(" import ")?;
            let is_module = module.split('.').all(is_identifier);
            if imported.is_some() || !is_module || !is_identifier(name) {
                return None;
            }
            imported = Some((module, name));
        } else {
            let call = line.strip_prefix("sys.exit(")?.strip_suffix("())")?;
            if called.is_some() || !call.split('.').all(is_identifier) {
                return None;
            }
            called = Some(call);
        }
    }
    let ((module, name), called) = (imported?, called?);
    let rest = called.strip_prefix(name)?;
    (rest.is_empty() || rest.starts_with('.')).then(|| format!("{NEUTRAL}{module}:{called}\n"))
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty() && name.chars().all(|c| c == '_' || c.is_alphanumeric())
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
    #[test_case("#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'python3' \"$0\" \"$@\"\n' '''\nimport x\n" => Some("#!python\nimport x\n".to_owned()); "beside the script")]
    #[test_case("#!/bin/sh\n'''exec' \"$(dirname -- \"$(realpath -- \"$0\")\")\"/'bash' \"$0\" \"$@\"\n' '''\nimport x\n" => None; "another program beside the script")]
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

    const PIP: &str = "# -*- coding: utf-8 -*-\nimport re\nimport sys\nfrom a.b import main\nif __name__ == '__main__':\n    \
        sys.argv[0] = re.sub(r'(-script\\.pyw|\\.exe)?$', '', sys.argv[0])\n    sys.exit(main())\n";
    const UV: &str = "# -*- coding: utf-8 -*-\nimport sys\nfrom a.b import main\nif __name__ == \"__main__\":\n    if \
        sys.argv[0].endswith(\"-script.pyw\"):\n        sys.argv[0] = sys.argv[0][:-11]\n    elif \
        sys.argv[0].endswith(\".exe\"):\n        sys.argv[0] = sys.argv[0][:-4]\n    sys.exit(main())\n";

    #[test_case(PIP => Some("a.b:main".to_owned()); "pip")]
    #[test_case(UV => Some("a.b:main".to_owned()); "uv")]
    #[test_case("import sys\nfrom a import App\nsys.exit(App.run())\n" => Some("a:App.run".to_owned()); "a method")]
    #[test_case("import sys\nfrom a import main\nsys.exit(other())\n" => None; "another function")]
    #[test_case("import sys\nfrom a import main\nimport evil\nsys.exit(main())\n" => None; "a further import")]
    #[test_case("import sys\nfrom a import main\nsys.exit(main(evil()))\n" => None; "an argument")]
    #[test_case("import sys\nfrom a import main\nfrom b import main\nsys.exit(main())\n" => None; "two imports")]
    #[test_case("import sys\n" => None; "no call")]
    fn scripts_of_installers_have_one_form(text: &str) -> Option<String> {
        let form = entry_point(&format!("{NEUTRAL}{text}"))?;
        Some(form.strip_prefix(NEUTRAL)?.trim_end().to_owned())
    }
}
