//! `cargo xtask eval`: recall and false positives of the engines, on a folder of labelled items.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command: the result on stdout, the rest on stderr"
)]

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, bail};
use mcpmon_core::inspect::launch::LaunchRules;
use serde::{Deserialize, Serialize};

/// Items of a group that are named in the table.
const NAMED_MISSES: usize = 20;

/// Arguments of `cargo xtask eval`.
#[derive(Debug, clap::Args)]
pub(crate) struct EvalArgs {
    /// Folder with the items, one JSON object a line in files named `*.jsonl`
    #[arg(long, value_name = "DIR")]
    corpus: PathBuf,
    /// Print one JSON object instead of tables
    #[arg(long)]
    json: bool,
    /// Print the text of misjudged items, not only their ids (corpora contain hostile text and secrets)
    #[arg(long, conflicts_with = "json")]
    show: bool,
}

/// What has been measured.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Report {
    groups: Vec<Group>,
    summary: Summary,
    #[serde(skip)]
    misses: Vec<Miss>,
    #[serde(skip)]
    skipped: BTreeMap<String, u64>,
    #[serde(skip)]
    bad_lines: Vec<String>,
}

/// Items that share kind, corpus, tier and label.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Group {
    #[serde(flatten)]
    key: GroupKey,
    n: u64,
    flagged: u64,
    blocked: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
struct GroupKey {
    kind: String,
    corpus: String,
    tier: String,
    label: String,
}

/// The figures that have targets. Kinds without an engine have none.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Summary {
    launches: Option<Launches>,
}

/// Fractions of the launch lines; `None` where there is no line to take a fraction of.
#[derive(Debug, PartialEq, Serialize)]
struct Launches {
    recall: Option<f64>,
    fp: Option<f64>,
}

/// A misjudged item.
#[derive(Debug, PartialEq, Eq)]
struct Miss {
    kind: String,
    id: String,
    label: String,
    text: String,
}

/// A line of a corpus, as far as it is read.
#[derive(Debug, Deserialize)]
struct Item {
    id: String,
    kind: String,
    label: String,
    #[serde(default)]
    tier: Option<String>,
    #[serde(default)]
    corpus: Option<String>,
    #[serde(default)]
    argv: Option<Vec<String>>,
}

/// How an item was judged.
enum Judgement {
    /// It was flagged, or not, and should have been, or not.
    Judged {
        flagged: bool,
        expected: bool,
        text: String,
    },
    /// No engine judges items of this kind.
    NoEngine,
}

/// Measures the corpus, prints the result, and fails if a line of it could not be read.
pub(crate) fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let report = measure(&args.corpus)?;
    if args.json {
        println!("{}", serde_json::to_string(&report)?);
    } else {
        print!(
            "{}",
            tables(&report, if args.show { Misses::WithText } else { Misses::Ids })
        );
    }
    for (kind, count) in &report.skipped {
        eprintln!("skipped {count} items of kind {kind}: no engine in this version");
    }
    for line in &report.bad_lines {
        eprintln!("error: {line}");
    }
    match report.bad_lines.len() {
        0 => Ok(()),
        count => bail!(
            "{count} lines of {} could not be read; the figures are without them",
            args.corpus.display()
        ),
    }
}

/// Judges every item below `corpus`.
fn measure(corpus: &Path) -> anyhow::Result<Report> {
    let files = jsonl_files(corpus)?;
    if files.is_empty() {
        bail!(
            "no *.jsonl file in {}: unpack a corpus there first",
            corpus.display()
        );
    }
    let rules = LaunchRules::default();
    let mut report = Report::default();
    let mut groups = BTreeMap::new();
    for file in files {
        let text = fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
        let stem = file.file_stem().unwrap_or_default().to_string_lossy();
        for (index, line) in text
            .lines()
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
        {
            let read = serde_json::from_str::<Item>(line).map_err(anyhow::Error::from);
            match read.and_then(|item| judge(&rules, &item).map(|judgement| (item, judgement))) {
                Ok((item, judgement)) => count(&mut report, &mut groups, &stem, item, judgement),
                Err(error) => report
                    .bad_lines
                    .push(format!("{}:{}: {error:#}", file.display(), index + 1)),
            }
        }
    }
    report.groups = groups.into_values().collect();
    report.summary.launches = launches(&report.groups);
    Ok(report)
}

fn jsonl_files(corpus: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let entries =
        fs::read_dir(corpus).with_context(|| format!("cannot list the corpus {}", corpus.display()))?;
    let mut files = Vec::new();
    for entry in entries {
        let path = entry
            .with_context(|| format!("cannot list the corpus {}", corpus.display()))?
            .path();
        if path.extension().is_some_and(|extension| extension == "jsonl") {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

fn judge(rules: &LaunchRules, item: &Item) -> anyhow::Result<Judgement> {
    if item.kind != "launch" {
        return Ok(Judgement::NoEngine);
    }
    let argv = item
        .argv
        .as_deref()
        .context("an item of kind launch needs `argv`, a list of words")?;
    let expected = match item.label.as_str() {
        "mcp_server" => true,
        "other" => false,
        label => bail!("label of a launch must be `mcp_server` or `other`, not `{label}`"),
    };
    Ok(Judgement::Judged {
        flagged: rules.detect(argv).is_some(),
        expected,
        text: argv.join(" "),
    })
}

fn count(
    report: &mut Report,
    groups: &mut BTreeMap<GroupKey, Group>,
    file: &str,
    item: Item,
    judgement: Judgement,
) {
    let (flagged, expected, text) = match judgement {
        Judgement::Judged {
            flagged,
            expected,
            text,
        } => (flagged, expected, text),
        Judgement::NoEngine => {
            *report.skipped.entry(item.kind).or_default() += 1;
            return;
        }
    };
    let key = GroupKey {
        kind: item.kind.clone(),
        corpus: item.corpus.unwrap_or_else(|| file.to_owned()),
        tier: item.tier.unwrap_or_else(|| "core".to_owned()),
        label: item.label.clone(),
    };
    let group = groups.entry(key.clone()).or_insert(Group {
        key,
        n: 0,
        flagged: 0,
        blocked: 0,
    });
    group.n += 1;
    group.flagged += u64::from(flagged);
    if flagged != expected {
        report.misses.push(Miss {
            kind: item.kind,
            id: item.id,
            label: item.label,
            text,
        });
    }
}

/// Recall and false positives over the core tier, `None` without launches.
fn launches(groups: &[Group]) -> Option<Launches> {
    let rate = |label: &str| {
        let of_label = groups.iter().filter(|group| {
            group.key.kind == "launch" && group.key.tier == "core" && group.key.label == label
        });
        let (flagged, n) = of_label.fold((0, 0), |(flagged, n), group| {
            (flagged + group.flagged, n + group.n)
        });
        fraction(flagged, n)
    };
    let (recall, fp) = (rate("mcp_server"), rate("other"));
    (recall.is_some() || fp.is_some()).then_some(Launches { recall, fp })
}

/// `part` of `whole`; `None` of nothing. Corpora are far smaller than 2³² items.
fn fraction(part: u64, whole: u64) -> Option<f64> {
    let part = f64::from(u32::try_from(part).ok()?);
    let whole = f64::from(u32::try_from(whole).ok().filter(|&whole| whole > 0)?);
    Some(part / whole)
}

/// How misjudged items are listed.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Misses {
    Ids,
    WithText,
}

fn tables(report: &Report, misses: Misses) -> String {
    let mut text = format!(
        "{:<14} {:<24} {:<14} {:<12} {:>7} {:>8} {:>8}\n",
        "KIND", "CORPUS", "TIER", "LABEL", "N", "FLAGGED", "BLOCKED"
    );
    for Group {
        key,
        n,
        flagged,
        blocked,
    } in &report.groups
    {
        let GroupKey {
            kind,
            corpus,
            tier,
            label,
        } = key;
        text += &format!("{kind:<14} {corpus:<24} {tier:<14} {label:<12} {n:>7} {flagged:>8} {blocked:>8}\n");
    }
    if let Some(Launches { recall, fp }) = &report.summary.launches {
        text += &format!(
            "\nlaunches: recall {}, false positives {}\n",
            percent(*recall),
            percent(*fp)
        );
    }
    if !report.misses.is_empty() {
        text += &format!("\nmisjudged: {}\n", report.misses.len());
    }
    for miss in report.misses.iter().take(NAMED_MISSES) {
        let Miss {
            kind,
            id,
            label,
            text: item,
        } = miss;
        text += &match misses {
            Misses::Ids => format!("  {kind} {id} is {label}\n"),
            Misses::WithText => format!("  {kind} {id} is {label}: {}\n", item.escape_debug()),
        };
    }
    if report.misses.len() > NAMED_MISSES {
        text += &format!("  and {} more\n", report.misses.len() - NAMED_MISSES);
    }
    text
}

fn percent(fraction: Option<f64>) -> String {
    fraction.map_or_else(
        || "not measured".to_owned(),
        |fraction| format!("{:.1} %", fraction * 100.0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const ITEMS: &str = r#"{"id": "a", "kind": "launch", "label": "mcp_server", "argv": ["uvx", "mcp-server-time"]}
{"id": "b", "kind": "launch", "label": "mcp_server", "argv": ["uvx", "nothing-of-the-kind"]}
{"id": "c", "kind": "launch", "label": "other", "corpus": "mine", "argv": ["ls"]}

{"id": "d", "kind": "launch", "label": "other", "tier": "stress", "argv": ["uvx", "mcp-server-time"]}
{"id": "e", "kind": "tool_output", "label": "benign", "payload": "text"}
"#;

    fn measured(items: &str) -> Report {
        let corpus = tempfile::tempdir().expect("a directory");
        fs::write(corpus.path().join("items.jsonl"), items).expect("a file");
        fs::write(corpus.path().join("README.md"), "no items").expect("a file");
        measure(corpus.path()).expect("a report")
    }

    #[test]
    fn items_are_grouped_and_summed_over_the_core_tier() {
        let report = measured(ITEMS);
        let groups: Vec<_> = report
            .groups
            .iter()
            .map(|group| {
                (
                    group.key.corpus.as_str(),
                    group.key.tier.as_str(),
                    group.n,
                    group.flagged,
                )
            })
            .collect();
        assert_eq!(
            groups,
            [
                ("items", "core", 2, 1),
                ("items", "stress", 1, 1),
                ("mine", "core", 1, 0)
            ]
        );
        assert_eq!(
            report.summary.launches,
            Some(Launches {
                recall: Some(0.5),
                fp: Some(0.0)
            })
        );
        let misses: Vec<_> = report.misses.iter().map(|miss| miss.id.as_str()).collect();
        assert_eq!(misses, ["b", "d"]);
    }

    #[test]
    fn json_has_the_documented_shape() {
        let json = serde_json::to_value(measured(ITEMS)).expect("json");
        assert_eq!(
            json["groups"][0],
            serde_json::json!({
                "kind": "launch", "corpus": "items", "tier": "core", "label": "mcp_server", "n": 2, "flagged": 1, "blocked": 0,
            })
        );
        assert_eq!(
            json["summary"],
            serde_json::json!({"launches": {"recall": 0.5, "fp": 0.0}})
        );
    }

    #[test]
    fn kinds_without_an_engine_are_counted() {
        let report = measured(ITEMS);
        assert_eq!(report.skipped, BTreeMap::from([("tool_output".to_owned(), 1)]));
        assert_eq!(
            measured(r#"{"id": "e", "kind": "x", "label": "y"}"#)
                .summary
                .launches,
            None
        );
    }

    #[test]
    fn bad_lines_are_named_and_the_rest_is_measured() {
        let report = measured(&format!(
            "not json\n{ITEMS}{}\n{}\n",
            r#"{"id": "f", "kind": "launch", "label": "other"}"#,
            r#"{"id": "g", "kind": "launch", "label": "maybe", "argv": []}"#,
        ));
        assert_eq!(report.bad_lines.len(), 3);
        assert!(
            report.bad_lines[0].contains("items.jsonl:1: "),
            "{}",
            report.bad_lines[0]
        );
        assert!(report.bad_lines[1].contains("items.jsonl:8: ") && report.bad_lines[1].contains("argv"));
        assert!(report.bad_lines[2].contains("maybe"), "{}", report.bad_lines[2]);
        assert_eq!(report.groups.len(), 3);
    }

    #[test]
    fn bad_lines_fail_the_run() {
        let corpus = tempfile::tempdir().expect("a directory");
        let run_on = |items: &str| {
            fs::write(corpus.path().join("items.jsonl"), items).expect("a file");
            run(&EvalArgs {
                corpus: corpus.path().to_owned(),
                json: true,
                show: false,
            })
        };
        run_on(ITEMS).expect("a clean corpus");
        assert!(run_on("{").is_err_and(|error| error.to_string().contains("1 lines")));
    }

    #[test]
    fn a_folder_without_items_is_an_error() {
        let empty = tempfile::tempdir().expect("a directory");
        assert!(measure(empty.path()).is_err_and(|error| error.to_string().contains("no *.jsonl")));
        let missing = empty.path().join("missing");
        assert!(measure(&missing).is_err_and(|error| error.to_string().contains("cannot list")));
    }

    #[test]
    fn text_is_shown_only_on_request() {
        let report = measured(ITEMS);
        assert!(!tables(&report, Misses::Ids).contains("nothing-of-the-kind"));
        assert!(
            tables(&report, Misses::WithText).contains("launch b is mcp_server: uvx nothing-of-the-kind")
        );
    }
}
