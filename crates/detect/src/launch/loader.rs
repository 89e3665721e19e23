//! The dynamic loader as a command: `ld-linux-x86-64.so.2 OPTIONS PROGRAM ARGUMENTS` runs another program in its own
//! process.

use mcpmon_model::is_loader;

use super::command::basename;

/// Options of the loaders of glibc and musl that take a value.
const WITH_VALUE: [&str; 7] = [
    "--argv0",
    "--audit",
    "--glibc-hwcaps-mask",
    "--glibc-hwcaps-prepend",
    "--inhibit-rpath",
    "--library-path",
    "--preload",
];
/// Most loaders that run each other.
const MAX_LOADERS: usize = 8;

/// Returns the position of the program that a loader is told to run; `None` for any other command, and for a loader
/// that runs nothing.
pub(super) fn program_at<S: AsRef<str>>(words: &[S]) -> Option<usize> {
    let mut at = None;
    for _ in 0..MAX_LOADERS {
        match behind(words, at.unwrap_or(0)) {
            Some(next) => at = Some(next),
            None => break,
        }
    }
    at
}

fn behind<S: AsRef<str>>(words: &[S], loader: usize) -> Option<usize> {
    if !is_loader(basename(words.get(loader)?.as_ref())) {
        return None;
    }
    let mut at = loader + 1;
    loop {
        let word = words.get(at)?.as_ref();
        match word {
            "--" => return words.get(at + 1).map(|_| at + 1),
            "--inhibit-cache" => at += 1,
            option if WITH_VALUE.contains(&option) => at += 2,
            option if is_set(option) => at += 1,
            // `--list` and the like only print something; other options are errors.
            option if option.starts_with("--") => return None,
            _ => return Some(at),
        }
    }
}

/// Returns whether a word is an option with its value, `--preload=LIBRARY`, as musl allows.
fn is_set(word: &str) -> bool {
    let option = word.split_once('=').map(|(option, _)| option);
    option.is_some_and(|option| WITH_VALUE.contains(&option))
}

#[cfg(test)]
mod tests {
    use test_case::test_case;

    use super::*;

    #[test_case("/lib64/ld-linux-x86-64.so.2 ./server --flag" => Some(1); "a program")]
    #[test_case("ld-linux-aarch64.so.1 --library-path /l --preload /p.so ./server" => Some(5); "options")]
    #[test_case("/lib64/ld-linux-x86-64.so.2 --argv0 x --inhibit-cache /srv/server" => Some(4); "a name")]
    #[test_case("/lib/ld-musl-x86_64.so.1 --preload=/p.so -- ./server" => Some(3); "musl")]
    #[test_case("/lib/libc.musl-x86_64.so.1 ./server" => Some(1); "musl by its library")]
    #[test_case("/lib/ld-2.31.so ./server" => Some(1); "by version")]
    #[test_case("/lib64/ld64.so.2 ./server" => Some(1); "another architecture")]
    #[test_case("/lib64/ld.so.1 /lib64/ld-linux-x86-64.so.2 --audit a ./server" => Some(4); "one behind another")]
    #[test_case("/lib64/ld-linux-x86-64.so.2 --list ./server" => None; "only shown")]
    #[test_case("/lib64/ld-linux-x86-64.so.2" => None; "nothing to run")]
    #[test_case("/lib64/ld-linux-x86-64.so.2 --preload" => None; "an option without its value")]
    #[test_case("ld -o a.out a.o" => None; "the linker")]
    #[test_case("ld-tool.sh x" => None; "another program")]
    #[test_case("./server /lib64/ld-linux-x86-64.so.2 x" => None; "an argument")]
    fn programs(line: &str) -> Option<usize> {
        program_at(&line.split(' ').collect::<Vec<_>>())
    }
}
