//! Files that a shell line reads, writes and removes. The effects of common programs on their arguments are
//! known; of other programs only redirections and `--output` options are.

mod programs;

use super::{FileAccess, code, uses::Uses};
use crate::shell::{Expansion, ShellCommand, UNKNOWN, script};

/// Bytes of a line that are read; a kernel takes no longer argument.
const MAX_LINE: usize = 256 << 10;
/// Lines within lines that are read.
const MAX_DEPTH: usize = 8;

/// Most directories of one `find` for which the commands that it runs are read.
const MAX_STARTS: usize = 16;

/// The reader of successive lines.
struct ShellReader<'u> {
    directory: Option<String>,
    found: &'u mut Uses,
}

/// Adds the files that `line` names, run in `directory` if that is known.
pub(super) fn files(line: &str, directory: Option<&str>, found: &mut Uses) {
    if line.len() > MAX_LINE {
        found.cut();
    }
    let mut reader = ShellReader {
        directory: directory.map(str::to_owned),
        found,
    };
    reader.line(&line[..line.floor_char_boundary(MAX_LINE)], MAX_DEPTH);
}

/// Adds the files that a command in words names.
pub(super) fn files_of_words(words: &[&str], directory: Option<&str>, found: &mut Uses) {
    let mut reader = ShellReader {
        directory: directory.map(str::to_owned),
        found,
    };
    let words: Vec<String> = words.iter().map(|&word| word.to_owned()).collect();
    reader.words(&words, "", MAX_DEPTH);
}

impl ShellReader<'_> {
    fn line(&mut self, line: &str, depth: usize) {
        if line.is_empty() {
            return;
        }
        let Some(depth) = depth.checked_sub(1) else {
            return self.found.cut();
        };
        let script = script(line, Expansion::Read);
        for ShellCommand {
            words,
            outputs,
            inputs,
            document,
        } in script.commands
        {
            outputs.iter().for_each(|path| self.add(path, FileAccess::Write));
            inputs.iter().for_each(|path| self.add(path, FileAccess::Read));
            let words: Vec<String> = words.into_iter().map(|word| word.text).collect();
            self.words(&words, &document, depth);
        }
        for nested in script.nested {
            self.line(&nested, depth);
        }
    }

    /// Reads one command, with `document` on its standard input.
    fn words(&mut self, words: &[String], document: &str, depth: usize) {
        let words = programs::without_prefixes(words);
        let Some((first, rest)) = words.split_first() else {
            return;
        };
        let program = first.rsplit('/').next().unwrap_or(first).to_lowercase();
        match program.as_str() {
            "cd" | "pushd" => {
                if let Some(to) = rest.iter().find(|word| !word.starts_with('-')) {
                    self.directory = Some(self.placed(to));
                }
            }
            "eval" => self.line(&rest.join(" "), depth),
            "xargs" | "parallel" => {
                let command = rest
                    .iter()
                    .position(|word| !word.starts_with('-'))
                    .unwrap_or(rest.len());
                match depth.checked_sub(1) {
                    Some(depth) => self.words(&rest[command..], "", depth),
                    None => self.found.cut(),
                }
            }
            program if programs::is_shell(program) => {
                if let Some(line) = after_option(rest, 'c') {
                    self.line(line, depth);
                }
                self.line(document, depth);
            }
            program if programs::is_interpreter(program) => {
                self.code(document);
                let options = ['c', 'e', 'r', 'p', 'E'];
                for line in options.iter().filter_map(|option| after_option(rest, *option)) {
                    self.code(line);
                }
                let is_given = |word: &&String| word.starts_with("--eval=") || word.starts_with("--print=");
                rest.iter().filter(is_given).for_each(|word| self.code(word));
                if let Some(at) = rest.iter().position(|word| word == "--eval") {
                    rest[at + 1..].iter().take(1).for_each(|line| self.code(line));
                }
                self.operands(program, rest);
            }
            "apply_patch" | "applypatch" => {
                for target in rest.iter().flat_map(|patch| super::patch::targets(patch)) {
                    self.add(target, FileAccess::Write);
                }
                super::patch::targets(document).for_each(|target| self.add(target, FileAccess::Write));
            }
            "find" => self.find(rest, depth),
            program => self.operands(program, rest),
        }
        if program == "patch" || (program == "git" && rest.iter().any(|word| word == "apply")) {
            super::patch::targets(document).for_each(|target| self.add(target, FileAccess::Write));
        }
    }

    fn operands(&mut self, program: &str, words: &[String]) {
        for (path, access) in programs::operands(program, words) {
            self.add(&path, access);
        }
    }

    fn find(&mut self, words: &[String], depth: usize) {
        let starts = words.iter().take_while(|word| !word.starts_with(['-', '(', '!']));
        if words.iter().any(|word| word == "-delete") {
            starts.for_each(|path| self.add(path, FileAccess::Remove));
            return;
        }
        let runs = |word: &String| matches!(word.as_str(), "-exec" | "-execdir" | "-ok" | "-okdir");
        if let Some(at) = words.iter().position(runs) {
            let Some(depth) = depth.checked_sub(1) else {
                return self.found.cut();
            };
            if starts.clone().nth(MAX_STARTS).is_some() {
                self.found.cut();
            }
            for start in starts.take(MAX_STARTS) {
                let put = |word: &String| word.replace("{}", start);
                let command = words[at + 1..]
                    .iter()
                    .take_while(|word| !matches!(word.as_str(), ";" | "+"));
                let command: Vec<String> = command.map(put).collect();
                self.words(&command, "", depth);
            }
        }
    }

    fn code(&mut self, code: &str) {
        for (path, access) in code::paths(code) {
            self.add(path, access);
        }
    }

    fn add(&mut self, path: &str, access: FileAccess) {
        if path.is_empty() || path.starts_with('-') || path == UNKNOWN {
            return;
        }
        if self.found.is_cut() {
            return;
        }
        let path = self.placed(path);
        self.found.add(path, access);
    }

    /// Returns a path relative to the directory in which the command runs.
    fn placed(&self, path: &str) -> String {
        match &self.directory {
            Some(directory) if super::is_relative(path) && directory.len() <= mcpmon_model::MAX_PATH => {
                format!("{directory}/{path}")
            }
            Some(_) | None => path.to_owned(),
        }
    }
}

/// Returns the word after `-c`, or after options that end with it: `-lc`.
fn after_option(words: &[String], option: char) -> Option<&String> {
    let is_option = |word: &String| {
        word.strip_prefix('-').is_some_and(|letters| {
            letters.ends_with(option) && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
        })
    };
    let at = words.iter().position(is_option)?;
    words.get(at + 1)
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    fn told(line: &str) -> Vec<String> {
        let mut uses = Uses::default();
        files(line, None, &mut uses);
        let mut told: Vec<_> = uses
            .iter()
            .map(|one| format!("{} {}", one.access.verb(), one.path))
            .collect();
        told.dedup();
        told
    }

    #[test_case("cat > ~/.x <<EOF\n~/.y\nEOF", &["writes ~/.x"]; "here document")]
    #[test_case("echo ~/.x", &[]; "only said")]
    #[test_case("cat a | sudo -u me tee -a ~/.x >/dev/null", &["reads a", "writes /dev/null", "writes ~/.x"]; "tee")]
    #[test_case("cd ~/.ssh && echo k >> authorized_keys", &["writes ~/.ssh/authorized_keys"]; "another directory")]
    #[test_case("bash -lc 'echo x > ~/.x'", &["writes ~/.x"]; "shell in a shell")]
    #[test_case("eval \"echo x > ~/.x\"", &["writes ~/.x"]; "eval")]
    #[test_case("sed -i.bak s/a/b/ ~/.x", &["writes s/a/b/", "writes ~/.x"]; "sed in place")]
    #[test_case("sed s/a/b/ ~/.x", &["reads s/a/b/", "reads ~/.x"]; "sed")]
    #[test_case("cp evil/.bashrc ~", &["reads evil/.bashrc", "writes ~", "writes ~/.bashrc"]; "cp into a directory")]
    #[test_case("mv ~/.x y", &["removes ~/.x", "writes y", "writes y/.x"]; "mv")]
    #[test_case("dd if=a of=~/.x bs=1", &["reads a", "writes ~/.x"]; "dd")]
    #[test_case("curl -so ~/.x https://e.example", &["writes ~/.x"]; "curl")]
    #[test_case("python3 -c \"open('~/.x','w')\"", &["writes ~/.x", "reads open('~/.x','w')"]; "python")]
    #[test_case("find ~/.x -name a -delete", &["removes ~/.x"]; "find and delete")]
    #[test_case("find ~/.x -exec rm {} +", &["removes ~/.x"]; "find and run")]
    #[test_case("git config --global alias.x '!sh'", &["writes ~/.gitconfig"]; "git config")]
    #[test_case("git config --global user.name me", &[]; "a name for git")]
    #[test_case("crontab -l", &[]; "crontab listed")]
    #[test_case("crontab evil", &["writes /var/spool/cron/crontab"]; "crontab replaced")]
    #[test_case("npm config set registry https://e.example", &["writes ~/.npmrc"]; "npm config")]
    #[test_case("mcpmon approve fs:read", &["writes ~/.local/state/mcpmon/mcpmon.db"]; "an approval")]
    #[test_case("mcpmon status", &[]; "a look at mcpmon")]
    #[test_case("apply_patch <<'EOF'\n*** Begin Patch\n*** Add File: .x\n+y\nEOF", &["writes Begin Patch", "writes .x"]; "a patch")]
    fn lines(line: &str, expected: &[&str]) {
        assert_eq!(told(line), expected);
    }

    #[test]
    fn nesting_ends() {
        told(&"bash -c '".repeat(1000));
        told(&"$(".repeat(10_000));
    }
}
