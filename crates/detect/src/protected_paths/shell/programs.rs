//! Effects of common programs on their operands.

use mcpmon_model::MAX_PATH;

use super::FileAccess;
use crate::tables::{self, WordList};

/// Words before a command that run it.
static PREFIXES: WordList = tables::PROTECTED_PATHS.list("shell_programs", "prefixes");
/// Options of these words that take the word after them.
static WITH_WORD: WordList = tables::PROTECTED_PATHS.list("shell_programs", "with_word");

/// Returns `words` from the program on.
pub(super) fn without_prefixes(words: &[String]) -> &[String] {
    let mut rest = words;
    loop {
        let Some(first) = rest.first() else { return rest };
        if is_assignment(first) {
            rest = &rest[1..];
        } else if PREFIXES.contains(&first.as_str()) {
            let name = first.as_str();
            rest = &rest[1..];
            while let Some(word) = rest.first().filter(|word| word.starts_with('-')) {
                // `env -S 'a b'` has the command in one word, which is then the program's name.
                let skip = match WITH_WORD.contains(&word.as_str()) && !(name == "env" && word == "-i") {
                    true => 2,
                    false => 1,
                };
                rest = rest.get(skip..).unwrap_or_default();
            }
            if name == "timeout" {
                rest = rest.get(1..).unwrap_or_default();
            }
        } else {
            return rest;
        }
    }
}

fn is_assignment(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty()
        && name
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
}

pub(super) fn is_shell(program: &str) -> bool {
    matches!(
        program,
        "sh" | "bash" | "zsh" | "dash" | "ash" | "ksh" | "mksh" | "fish" | "su"
    )
}

pub(super) fn is_interpreter(program: &str) -> bool {
    let name = program.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    matches!(
        name,
        "python"
            | "pypy"
            | "node"
            | "nodejs"
            | "deno"
            | "bun"
            | "perl"
            | "ruby"
            | "php"
            | "lua"
            | "tclsh"
            | "Rscript"
    )
}

/// Returns the operands of a program, with its access to each.
pub(super) fn operands(program: &str, words: &[String]) -> Vec<(String, FileAccess)> {
    let has = |option: &str| words.iter().any(|word| word == option);
    let plain: Vec<&String> = words.iter().filter(|word| !word.starts_with('-')).collect();
    let mut found = outputs(program, words);
    let all = |access| plain.iter().map(move |path| ((*path).clone(), access));
    match program {
        "tee" | "touch" | "truncate" | "chmod" | "chown" | "chgrp" | "chattr" | "setfacl" | "ed" | "ex"
        | "vi" | "vim" | "nvim" | "nano" | "emacs" | "sponge" | "patch" | "visudo" => {
            found.extend(all(FileAccess::Write))
        }
        "rm" | "unlink" | "shred" | "trash" | "trash-put" => found.extend(all(FileAccess::Remove)),
        "mv" | "rename" => transfer(words, FileAccess::Remove, &mut found),
        "cp" | "install" | "ln" | "rsync" | "scp" => transfer(words, FileAccess::Read, &mut found),
        "dd" => {
            for word in words {
                let (name, path) = word.split_once('=').unwrap_or_default();
                match name {
                    "of" => found.push((path.to_owned(), FileAccess::Write)),
                    "if" => found.push((path.to_owned(), FileAccess::Read)),
                    _ => {}
                }
            }
        }
        "sed" | "perl" | "ruby" | "awk" | "gawk" | "sd" => {
            let in_place = |word: &String| {
                word.starts_with("--in-place")
                    || (word.starts_with('-') && !word.starts_with("--") && word.contains('i'))
            };
            found.extend(all(match program == "sd" || words.iter().any(in_place) {
                true => FileAccess::Write,
                false => FileAccess::Read,
            }));
        }
        "git" => git(words, &mut found),
        "npm" | "pnpm" | "yarn" | "pip" | "pip3" | "kubectl" | "claude" | "codex" | "gemini" | "code"
        | "mcpmon" => {
            found.extend(settings(program, words));
        }
        "crontab" if !has("-l") && !words.is_empty() => {
            found.push(("/var/spool/cron/crontab".to_owned(), FileAccess::Write));
        }
        "tar" => {
            let creates = words.first().is_some_and(|letters| !letters.contains('x'))
                && !has("-x")
                && !has("--extract");
            if creates {
                found.extend(all(FileAccess::Read));
            }
        }
        // These programs only describe a file, or print its name.
        "echo" | "printf" | "ls" | "stat" | "test" | "[" | "[[" | "export" | "file" | "du" | "basename"
        | "dirname" | "realpath" | "readlink" | "which" | "type" | "alias" | "set" | "mkdir" | "rmdir"
        | "man" | "help" | "history" | "crontab" | "curl" | "wget" | "unzip" => {}
        _ => found.extend(all(FileAccess::Read)),
    }
    found
}

/// Returns the output files that options name.
fn outputs(program: &str, words: &[String]) -> Vec<(String, FileAccess)> {
    let mut found = Vec::new();
    for (at, word) in words.iter().enumerate() {
        let next = || words.get(at + 1).cloned();
        if let Some(path) = word
            .strip_prefix("--output=")
            .or_else(|| word.strip_prefix("--output-document="))
        {
            found.push((path.to_owned(), FileAccess::Write));
        } else if matches!(word.as_str(), "--output" | "--output-document" | "--out" | "-o") {
            found.extend(next().map(|path| (path, FileAccess::Write)));
        } else {
            let directory = match program {
                "curl" if is_letters(word) && word.ends_with('o') => next(),
                "wget" if is_letters(word) && word.ends_with('O') => next(),
                // The extracted files are in this directory.
                "tar" if matches!(word.as_str(), "-C" | "--directory") => {
                    next().map(|path| format!("{path}/x"))
                }
                "unzip" if word == "-d" => next().map(|path| format!("{path}/x")),
                _ => None,
            };
            found.extend(directory.map(|path| (path, FileAccess::Write)));
        }
    }
    found
}

fn is_letters(word: &str) -> bool {
    let letters = word.strip_prefix('-').unwrap_or_default();
    !letters.is_empty() && letters.bytes().all(|byte| byte.is_ascii_alphabetic())
}

/// Sources, and a target that may be a directory.
fn transfer(words: &[String], source: FileAccess, found: &mut Vec<(String, FileAccess)>) {
    let mut target = None;
    let mut plain = Vec::new();
    let mut rest = words.iter();
    while let Some(word) = rest.next() {
        if word == "-t" || word == "--target-directory" {
            target = rest.next();
        } else if !word.starts_with('-') {
            plain.push(word);
        }
    }
    let Some(target) = target.or_else(|| plain.pop()) else {
        return;
    };
    found.extend(plain.iter().map(|path| ((*path).clone(), source)));
    found.push((target.clone(), FileAccess::Write));
    // More of them than one transfer names would make the work quadratic in a long target.
    for path in plain
        .iter()
        .take(MAX_SOURCES)
        .filter(|_| target.len() <= MAX_PATH)
    {
        let name = path.trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        found.push((
            format!("{}/{name}", target.trim_end_matches('/')),
            FileAccess::Write,
        ));
    }
}

/// Most sources whose targets in a directory are computed.
const MAX_SOURCES: usize = 4096;

/// Settings with which git runs commands, or connects elsewhere.
static GIT_KEYS: WordList = tables::PROTECTED_PATHS.list("shell_programs", "git_keys");

fn git(words: &[String], found: &mut Vec<(String, FileAccess)>) {
    if !words.iter().any(|word| word == "config") {
        return;
    }
    let looks = |word: &String| word.starts_with("--get") || word == "-l" || word == "--list";
    let runs = |word: &String| {
        let word = word.to_lowercase();
        GIT_KEYS.iter().any(|key| word.contains(key))
    };
    if words.iter().any(looks) || !words.iter().any(runs) {
        return;
    }
    let mut file = ".git/config".to_owned();
    for (at, word) in words.iter().enumerate() {
        match word.as_str() {
            "--global" => file = "~/.gitconfig".to_owned(),
            "--system" => file = "/etc/gitconfig".to_owned(),
            "-f" | "--file" => file = words.get(at + 1).cloned().unwrap_or_default(),
            _ => {}
        }
    }
    found.push((file, FileAccess::Write));
}

/// Returns the file that a program's own command for settings writes.
fn settings(program: &str, words: &[String]) -> Option<(String, FileAccess)> {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let follow = |one: &str, others: &[&str]| {
        let mut pairs = words.windows(2);
        pairs.any(|pair| pair[0] == one && others.contains(&pair[1]))
    };
    let changes = match program {
        "npm" | "pnpm" | "yarn" | "pip" | "pip3" => follow("config", &["set", "delete", "edit", "unset"]),
        "kubectl" => follow(
            "config",
            &["set", "set-cluster", "set-credentials", "set-context"],
        ),
        "claude" | "codex" | "gemini" => {
            follow("mcp", &["add", "add-json", "remove", "add-from-claude-desktop"])
        }
        "code" => words.contains(&"--add-mcp"),
        _ => {
            let verb = words.iter().find(|word| !word.starts_with('-'));
            matches!(verb, Some(&("approve" | "setup" | "kill" | "shim")))
                || follow("pins", &["trust", "reset"])
                || follow("approvals", &["allow", "deny"])
        }
    };
    let path = match program {
        "npm" | "pnpm" => "~/.npmrc",
        "yarn" => "~/.yarnrc",
        "pip" | "pip3" => "~/.config/pip/pip.conf",
        "kubectl" => "~/.kube/config",
        "claude" => "~/.claude.json",
        "codex" => "~/.codex/config.toml",
        "gemini" => "~/.gemini/settings.json",
        "code" => "~/.config/Code/User/mcp.json",
        _ => "~/.local/state/mcpmon/mcpmon.db",
    };
    changes.then(|| (path.to_owned(), FileAccess::Write))
}
