//! `cargo xtask layout`: in which order the functions lie that a wrapper runs, told by running one. Those that are
//! called while a conversation goes on come first, so that few pages hold them; those of the start follow.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
    fmt::Write as _,
    fs,
    io::{BufRead as _, BufReader, Write as _},
    path::{Path, PathBuf},
    process::{ExitCode, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, ensure};

use crate::{
    bench,
    packages::require_commands,
    shell::{self, step},
};

/// Where the order is kept.
const LAYOUT: &str = "mcpmon/layout.ld";
/// What gives memory back: both processes run it when their start is over, and when nothing was said for some time.
const GIVES_BACK: &str = "*note_object*";
/// Calls of the conversation before that, so many that rows of the store have numbers that are no longer short, and
/// after it.
const MANY: u32 = 9000;
const CALLS: u32 = 100;
/// How long nobody says anything until a wrapper gives its memory back, and longer than that.
const QUIET: Duration = Duration::from_secs(14);
/// Longer than what waits for time to pass is looked at.
const TICKS: Duration = Duration::from_secs(5);
/// The default policy with a rate that is not reached.
const POLICY: &str = "version: 1\nmcp: {rate_limits: {default_rpm: 1000000000, default_burst: 1000000000}}\n";
/// What needs instructions that callgrind does not know, and what runs instead where they are missing.
const ELSEWHERE: [(&str, &str); 1] = [(
    "_ZN4sha26sha2567x86_sha8compress",
    "_ZN4sha26sha2564soft6unroll8compress",
)];
/// How much of other functions of the same name may come with one: bytes, and times its own.
const COMPANY: u64 = 4096;
const TIMES: u64 = 8;

/// What to run.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Folder with `mcpmon` and `bench-stdio`, built with optimisation; both are built where it is not given
    #[arg(long, value_name = "DIR")]
    programs: Option<PathBuf>,
}

/// How often a function was called by the guard once that waited, by both processes since memory was given back last,
/// and at all. The greater comes first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Use {
    waiting: u64,
    later: u64,
    ever: u64,
}

/// Runs a wrapper under callgrind, and writes the order.
pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    require_commands("to count calls", &[("valgrind", "valgrind"), ("nm", "binutils")])?;
    let programs = match &options.programs {
        Some(programs) => fs::canonicalize(programs)?,
        None => {
            bench::build(&["mcpmon-bench", "mcpmon"])?;
            shell::target().join("release")
        }
    };
    let counted = shell::target().join("layout");
    if counted.exists() {
        fs::remove_dir_all(&counted)?;
    }
    fs::create_dir_all(&counted)?;
    fs::write(counted.join("mcpmon.yaml"), POLICY)?;
    let guard = step("talk through a wrapper under callgrind", || {
        converse(&programs, &counted)
    })?;
    let program = programs.join("mcpmon");
    let used = used(&counted, &program, guard)?;
    ensure!(
        !used.is_empty(),
        "callgrind saw no function of {}",
        program.display()
    );
    let sizes = shell::ask(
        "nm",
        &["--print-size", "--defined-only", &program.to_string_lossy()],
    );
    let ordered = ordered(&used, &sizes.context("nm cannot read the program")?);
    let layout = shell::repository().join(LAYOUT);
    fs::write(&layout, script(&ordered)).with_context(|| layout.display().to_string())?;
    shell::say(format_args!("{} names in {LAYOUT}", ordered.len()));
    Ok(ExitCode::SUCCESS)
}

/// A conversation of calls and pauses; the process that was started, which is the guard.
fn converse(programs: &Path, counted: &Path) -> Result<u32> {
    let mut wrapper = shell::command("valgrind");
    wrapper
        .args([
            "--quiet",
            "--tool=callgrind",
            "--demangle=no",
            "--compress-strings=no",
        ])
        .arg(format!("--dump-before={GIVES_BACK}"))
        .arg(format!("--callgrind-out-file={}/%p", counted.display()))
        .arg(programs.join("mcpmon"))
        .args(["wrap", "--server", "layout", "--socket", "no-daemon"])
        .arg("--config")
        .arg(counted.join("mcpmon.yaml"))
        .arg("--db")
        .arg(counted.join("store.db"))
        .arg("--")
        .arg(programs.join("bench-stdio"))
        .arg("echo")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut wrapper = wrapper.spawn().context("cannot start valgrind")?;
    let mut input = wrapper.stdin.take().context("a pipe")?;
    let mut output = BufReader::new(wrapper.stdout.take().context("a pipe")?);
    let mut ask = |id: u32, method: &str, params: &str| -> Result<()> {
        writeln!(
            input,
            r#"{{"jsonrpc":"2.0","id":{id},"method":"{method}","params":{params}}}"#
        )?;
        let mut answer = String::new();
        output.read_line(&mut answer)?;
        ensure!(answer.contains("\"result\""), "no answer but: {answer}");
        Ok(())
    };
    ask(
        1,
        "initialize",
        r#"{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"layout","version":"1"}}"#,
    )?;
    ask(2, "tools/list", "{}")?;
    for call in 3..3 + MANY + CALLS {
        if call == 3 + MANY {
            thread::sleep(QUIET);
        }
        // Words, and what may be a secret and is looked at more closely.
        let about = match call % 2 {
            0 => "what is said in a call ".repeat(8),
            _ => "w".repeat(180),
        };
        let arguments = format!(r#"{{"name":"report","arguments":{{"bytes":150,"about":"{about}"}}}}"#);
        ask(call, "tools/call", &arguments)?;
    }
    thread::sleep(TICKS);
    drop(input);
    let status = wrapper.wait()?;
    ensure!(status.success(), "the wrapper ended with {status}");
    Ok(wrapper.id())
}

/// The functions of the program that callgrind saw, by their mangled names.
fn used(counted: &Path, program: &Path, guard: u32) -> Result<BTreeMap<String, Use>> {
    let program = program.to_string_lossy();
    let mut used: BTreeMap<String, Use> = BTreeMap::new();
    for file in fs::read_dir(counted)? {
        let path = file?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        if !name.starts_with(|first: char| first.is_ascii_digit()) {
            continue;
        }
        // Parts that ended when memory was given back have numbers: `PID.1`.
        let is_last = !name.contains('.');
        let of_guard = is_last && name == guard.to_string();
        for (function, calls) in calls(&fs::read_to_string(&path)?, &program) {
            let used = used.entry(function).or_default();
            used.ever += calls;
            used.later += if is_last { calls } else { 0 };
            used.waiting += if of_guard { calls } else { 0 };
        }
    }
    Ok(used)
}

/// What one file of callgrind has of an object: functions, and how often each was called, at least once.
fn calls(counted: &str, of: &str) -> BTreeMap<String, u64> {
    let (mut object, mut called_object, mut called) = ("", None, "");
    let mut calls: BTreeMap<String, u64> = BTreeMap::new();
    let mut note = |object: &str, function: &str, count: u64| {
        // For valgrind, what is laid out is of no object.
        if object == of || object == "???" {
            // Recursion has a number behind the name.
            let name = function.split('\'').next().unwrap_or(function);
            *calls.entry(name.to_owned()).or_default() += count;
        }
    };
    for line in counted.lines() {
        match line.split_once('=') {
            Some(("ob", name)) => object = name,
            Some(("cob", name)) => called_object = Some(name),
            Some(("fn", name)) => note(object, name, 1),
            Some(("cfn", name)) => called = name,
            Some(("calls", counts)) => {
                let count = counts.split(' ').next().and_then(|count| count.parse().ok());
                note(called_object.take().unwrap_or(object), called, count.unwrap_or(1));
            }
            _ => {}
        }
    }
    calls
}

/// A name without what differs from build to build; `?` and `*` stand for whatever is there.
fn pattern(name: &str) -> String {
    if name.starts_with("_R") {
        return without_crates(name);
    }
    let end = match name.rfind("17h") {
        Some(hash) if name.starts_with("_ZN") => hash + 3,
        _ => name.find('.').unwrap_or(name.len()),
    };
    let more = if end < name.len() { "*" } else { "" };
    format!("{}{more}", name[..end].replace('$', "?"))
}

/// A name of the newer form without what tells versions of a crate apart: `Cs…_`.
fn without_crates(name: &str) -> String {
    let mut parts = name.split("Cs");
    let mut pattern = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        pattern.push_str("Cs");
        let version = part.find(|sign: char| !sign.is_ascii_alphanumeric());
        match version.filter(|end| part[*end..].starts_with('_')) {
            Some(end) => pattern.extend(["*", &part[end..]]),
            None => pattern.push_str(part),
        }
    }
    pattern
}

/// Patterns in their order. Those that bring much else with them come last: the others are to lie close together.
fn ordered(used: &BTreeMap<String, Use>, sizes: &str) -> Vec<String> {
    let mut patterns: BTreeMap<String, (Use, u64, u64)> = BTreeMap::new();
    let functions = functions(sizes);
    let seen = |names: &[(&str, u64)]| names.iter().filter_map(|(name, _)| use_of(name, used)).max();
    for names in functions.values() {
        let Some(seen) = seen(names) else { continue };
        // Functions with the same code are one, in the section of whichever.
        for (name, _) in names {
            let (most, ..) = patterns.entry(pattern(name)).or_default();
            *most = (*most).max(seen);
        }
    }
    for names in functions.values() {
        let (is_used, size) = (seen(names).is_some(), names[0].1);
        let named: BTreeSet<String> = names.iter().map(|(name, _)| pattern(name)).collect();
        for name in named {
            if let Some((_, own, all)) = patterns.get_mut(&name) {
                *all += size;
                *own += if is_used { size } else { 0 };
            }
        }
    }
    let mut order: Vec<_> = patterns.into_iter().collect();
    order.sort_by_key(|(_, (seen, own, all))| {
        let brings_much = *all > TIMES * own + COMPANY;
        (seen.later == 0, brings_much, Reverse(*seen))
    });
    order.into_iter().map(|(pattern, _)| pattern).collect()
}

/// How a function was used, or where it cannot run under callgrind, what ran instead.
fn use_of(name: &str, used: &BTreeMap<String, Use>) -> Option<Use> {
    let there = || {
        let (_, instead) = ELSEWHERE.iter().find(|(here, _)| name.starts_with(here))?;
        used.iter().find(|(seen, _)| seen.starts_with(instead))
    };
    used.get(name).or_else(|| there().map(|(_, seen)| seen)).copied()
}

/// By where they lie, the names of each function and its size.
fn functions(sizes: &str) -> BTreeMap<&str, Vec<(&str, u64)>> {
    let mut functions: BTreeMap<&str, Vec<(&str, u64)>> = BTreeMap::new();
    for line in sizes.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        if let [place, size, "t" | "T", name] = fields[..] {
            let size = u64::from_str_radix(size, 16).unwrap_or_default();
            functions.entry(place).or_default().push((name, size));
        }
    }
    functions
}

/// What the linker takes.
fn script(patterns: &[String]) -> String {
    let mut script = String::from(
        "/* The functions that a wrapper runs, beside each other and the most used first: pages of the program are what most\n   \
         of its memory is. Made by `cargo xtask layout`. A name that is gone matches nothing, and a function that is\n   \
         missing here lies where it would without: nothing but memory depends on this. */\nSECTIONS\n{\n  .text.wrapper :\n  {\n",
    );
    for pattern in patterns {
        // What is marked as seldom called has a section of another name, and is called all the same.
        writeln!(script, "    *(.text.{pattern} .text.unlikely.{pattern})")
            .expect("a string takes everything");
    }
    script.push_str("  }\n}\nINSERT BEFORE .text;\n");
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    const COUNTED: &str = "ob=/a/mcpmon\nfn=_ZN1a17h0123456789abcdefE\n10 5\ncob=/lib/libc.so\ncfn=malloc\n\
                           calls=7 1\n10 3\ncfn=_ZN1b17hfedcba9876543210E'2\ncalls=9 1\n10 4\n\nob=/lib/libc.so\n\
                           fn=malloc\n10 1\n";

    #[test]
    fn calls_are_of_the_program_alone_and_a_function_that_nobody_called_ran_all_the_same() {
        let calls = calls(COUNTED, "/a/mcpmon");
        let expected = [("_ZN1a17h0123456789abcdefE", 1), ("_ZN1b17hfedcba9876543210E", 9)];
        assert_eq!(
            calls,
            expected.map(|(name, count)| (name.to_owned(), count)).into()
        );
    }

    #[test]
    fn a_pattern_holds_for_every_build() {
        assert_eq!(
            pattern("_ZN4core3ptr5$LT$a17h0123456789abcdefE"),
            "_ZN4core3ptr5?LT?a17h*"
        );
        assert_eq!(pattern("_ZN1a17h0123456789abcdefE.llvm.12"), "_ZN1a17h*");
        assert_eq!(
            pattern("_RNvCsfLfy6EI15iL_7___rustc11___rdl_alloc"),
            "_RNvCs*_7___rustc11___rdl_alloc"
        );
        assert_eq!(pattern("sqlite3_step"), "sqlite3_step");
        assert_eq!(pattern("balance.part.0"), "balance*");
    }

    #[test]
    fn what_is_used_later_comes_first_and_what_brings_much_else_behind_it() {
        let seen = |later, ever| Use {
            waiting: 0,
            later,
            ever,
        };
        let used = BTreeMap::from([
            ("start".to_owned(), seen(0, 90)),
            ("seldom".to_owned(), seen(1, 1)),
            ("often".to_owned(), seen(9, 9)),
            ("_ZN1a17h0000000000000000E".to_owned(), seen(99, 99)),
            ("gone".to_owned(), seen(99, 99)),
            (ELSEWHERE[0].1.to_owned(), seen(5, 5)),
        ]);
        let sizes = format!(
            "1 10 t start\n2 10 t seldom\n3 10 T often\n4 10 t _ZN1a17h0000000000000000E\n\
             5 9000 t _ZN1a17h1111111111111111E\n6 10 d other\n2 10 t same\n7 10 t {}\n",
            ELSEWHERE[0].0
        );
        let expected = ["often", ELSEWHERE[0].0, "same", "seldom", "_ZN1a17h*", "start"];
        assert_eq!(ordered(&used, &sizes), expected);
    }
}
