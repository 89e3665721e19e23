//! `mcpmon policy import`: converts other tools' policies.

use std::{
    fs::OpenOptions,
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use mcpmon_config::{ImportedPolicy, ImportedTool, Note, NoteKind, Sources, Trust};
use serde_json::json;

use super::PolicyOutcome;
use crate::cli::text;

/// The file to convert.
#[derive(Debug, clap::Args)]
pub(in crate::cli) struct ImportArgs {
    /// The tool that the file belongs to.
    #[arg(long, value_enum, value_name = "TOOL")]
    from: From,
    /// The file to write; an existing file is left alone.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// The policy.
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// One JSON object with the policy and what is not carried over as it was.
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum From {
    /// `sandbox.mcp` or `mcp_rules`, `mcp.inspection`, `proxy`, `dlp`
    Agentsh,
    /// `mcp-policy.yaml`
    Agentshield,
}

/// Converts a file. The policy goes to `out` or to a file; notes about what is not carried over unchanged go to `err`.
pub(super) fn import(
    args: &ImportArgs,
    out: &mut impl Write,
    err: &mut impl Write,
) -> anyhow::Result<PolicyOutcome> {
    let from = match args.from {
        From::Agentsh => ImportedTool::Agentsh,
        From::Agentshield => ImportedTool::Agentshield,
    };
    let imported = match convert(from, &args.file) {
        Ok(imported) => imported,
        Err(error) => {
            let message = format!("{error:#}");
            match args.json {
                true => writeln!(
                    out,
                    "{}",
                    json!({"ok": false, "file": args.file, "message": message})
                )?,
                false => writeln!(err, "{message}\n")?,
            }
            return Ok(PolicyOutcome::Invalid);
        }
    };
    if let Some(path) = &args.output {
        write(path, &imported.text)?;
    }
    match (args.json, &args.output) {
        (true, output) => writeln!(out, "{}", as_json(from, &args.file, output.as_deref(), &imported))?,
        (false, None) => out.write_all(imported.text.as_bytes())?,
        (false, Some(_)) => {}
    }
    if !args.json {
        for note in &imported.notes {
            writeln!(err, "{}", text::escape(&line(&args.file, note)))?;
        }
    }
    Ok(PolicyOutcome::Valid)
}

fn convert(from: ImportedTool, path: &Path) -> anyhow::Result<ImportedPolicy> {
    let sources = Sources::read(path, Trust::Anyone)?;
    let (_, text) = sources.parts().first().context("a file has a text")?;
    Ok(mcpmon_config::import(from, &path.display().to_string(), text)?)
}

/// Writes a new file. An existing file is an error, so that a policy in force is not replaced by mistake.
pub(super) fn write(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).open(path);
    let written = file.and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()
    });
    written.map_err(|error| anyhow::anyhow!("cannot write {}: {error}", path.display()))
}

fn line(file: &Path, note: &Note) -> String {
    let place = match note.line {
        Some(line) => format!("{}:{line}", file.display()),
        None => file.display().to_string(),
    };
    let kind = match note.kind {
        NoteKind::LeftOut => "not carried over: ",
        NoteKind::Differs => "",
    };
    format!("{place}: {}: {kind}{}", note.path, note.message)
}

fn as_json(
    from: ImportedTool,
    file: &Path,
    output: Option<&Path>,
    imported: &ImportedPolicy,
) -> serde_json::Value {
    let note = |note: &Note| {
        json!({
            "path": note.path,
            "line": note.line,
            "kind": match note.kind {
                NoteKind::LeftOut => "left_out",
                NoteKind::Differs => "differs",
            },
            "message": note.message,
        })
    };
    json!({
        "ok": true,
        "from": from.name(),
        "file": file,
        "output": output,
        "policy": imported.text,
        "notes": imported.notes.iter().map(note).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the outcome, standard output and standard error of an import of `text`; `DIR` stands for its directory.
    fn run(text: &str, output: Option<&str>, json: bool) -> (anyhow::Result<PolicyOutcome>, String, String) {
        let directory = tempfile::tempdir().expect("directory");
        let file = directory.path().join("old.yaml");
        std::fs::write(&file, text).expect("written");
        let args = ImportArgs {
            from: From::Agentsh,
            output: output.map(|name| directory.path().join(name)),
            file,
            json,
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        let outcome = import(&args, &mut out, &mut err);
        let written = args.output.as_deref().map(std::fs::read_to_string);
        if let Some(Ok(written)) = written {
            out.extend(written.bytes());
        }
        let text = |bytes: Vec<u8>| {
            let text = String::from_utf8(bytes).expect("text");
            text.replace(&directory.path().display().to_string(), "DIR")
        };
        (outcome, text(out), text(err))
    }

    const OLD: &str = "mcp_rules:\n  enforce_policy: true\n  approvals: 2\n";

    #[test]
    fn the_policy_goes_to_the_output_and_notes_to_standard_error() {
        for output in [None, Some("new.yaml")] {
            let (outcome, out, err) = run(OLD, output, false);
            assert_eq!(outcome.expect("converted"), PolicyOutcome::Valid);
            assert!(
                out.ends_with("version: 1\n\nmcp:\n  enforce_policy: true\n"),
                "{out}"
            );
            assert_eq!(
                err,
                "DIR/old.yaml:3: mcp_rules.approvals: not carried over: mcpmon has nothing like it\n"
            );
        }
    }

    #[test]
    fn a_file_that_is_there_is_left() {
        let (outcome, out, _) = run(OLD, Some("old.yaml"), false);
        let error = outcome.expect_err("refused").to_string();
        assert!(
            error.starts_with("cannot write") && error.contains("old.yaml"),
            "{error}"
        );
        assert_eq!(out, OLD);
    }

    #[test]
    fn json_has_policy_and_notes() {
        let (_, out, err) = run(OLD, None, true);
        let object: serde_json::Value = serde_json::from_str(&out).expect("JSON");
        assert_eq!(object["notes"][0]["path"], "mcp_rules.approvals");
        assert_eq!(object["notes"][0]["kind"], "left_out");
        assert_eq!(err, "");
    }

    #[test]
    fn a_file_of_the_other_tool_is_not_made_an_empty_policy() {
        let (outcome, out, err) = run("blocked_tools: [x]\nrules: []\n", None, false);
        assert_eq!(outcome.expect("told").exit_code(), 2);
        assert_eq!(out, "");
        assert!(err.contains("did you mean `--from agentshield`?"), "{err}");
        // A key that belongs to neither tool is reported.
        let (outcome, _, err) = run("elephants: 1\n", None, false);
        assert_eq!(outcome.expect("converted"), PolicyOutcome::Valid);
        assert!(err.contains("elephants: not carried over"), "{err}");
    }

    #[test]
    fn what_is_no_yaml_is_a_mistake_of_the_configuration() {
        let (outcome, out, err) = run("a: [", None, false);
        assert_eq!(outcome.expect("told").exit_code(), 2);
        assert_eq!(out, "");
        assert!(err.starts_with("DIR/old.yaml:1:"), "{err}");
    }
}
