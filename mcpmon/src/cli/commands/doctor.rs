//! `mcpmon doctor`: checks what this kernel and configuration allow, and names the remedy for each gap.

use clap::Args;
use mcpmon_config::{LocalConfig, Search};
use serde_json::{Map, Value};

use crate::{
    app::doctor::{self, DoctorFinding, DoctorVerdict},
    cli::{CliError, ErrorKind, Output, daemon::Socket, kernel_state::KernelState, output::Form},
};

/// Try everything mcpmon needs on this host, and say how to fill each gap; exit 3 where enforcement cannot work
#[derive(Debug, Args)]
pub(in crate::cli) struct Options {
    #[command(flatten)]
    socket: Socket,
    #[command(flatten)]
    kernel: KernelState,
}

pub(in crate::cli) fn run(options: &Options, output: &mut Output<'_>) -> Result<(), CliError> {
    let search = Search::of_process(output.globals.config.clone(), LocalConfig::Ignore);
    let findings = doctor::examine(&search, &options.socket.path, &options.kernel.directory);
    match output.form {
        Form::Json => findings
            .iter()
            .try_for_each(|finding| output.json(&object(finding)))?,
        Form::Table => output.text(&findings.iter().flat_map(lines).collect::<Vec<_>>())?,
    }
    output.flush()?;
    let broken = findings
        .iter()
        .filter(|finding| finding.verdict == DoctorVerdict::Broken)
        .count();
    if broken == 0 {
        return Ok(());
    }
    Err(CliError::new(
        ErrorKind::Environment,
        anyhow::anyhow!("{broken} of {} checks failed", findings.len()),
    ))
}

const fn word(verdict: DoctorVerdict) -> &'static str {
    match verdict {
        DoctorVerdict::Good => "ok",
        DoctorVerdict::Degraded => "degraded",
        DoctorVerdict::Broken => "broken",
        DoctorVerdict::Unknown => "unknown",
    }
}

fn lines(finding: &DoctorFinding) -> Vec<String> {
    let mut lines = vec![format!(
        "{:<9} {}: {}",
        word(finding.verdict),
        finding.subject,
        finding.detail
    )];
    lines.extend(
        finding
            .remedy
            .iter()
            .map(|remedy| format!("{:<9} remedy: {remedy}", "")),
    );
    lines
}

fn object(finding: &DoctorFinding) -> Map<String, Value> {
    let mut object = Map::new();
    object.insert("subject".to_owned(), finding.subject.clone().into());
    object.insert("verdict".to_owned(), word(finding.verdict).into());
    object.insert("detail".to_owned(), finding.detail.clone().into());
    if let Some(remedy) = &finding.remedy {
        object.insert("remedy".to_owned(), remedy.clone().into());
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_comes_with_its_remedy() {
        let finding = DoctorFinding {
            subject: "cgroup".to_owned(),
            verdict: DoctorVerdict::Broken,
            detail: "none is mounted".to_owned(),
            remedy: Some("mount one".to_owned()),
        };
        assert_eq!(
            lines(&finding),
            ["broken    cgroup: none is mounted", "          remedy: mount one"]
        );
        assert_eq!(
            serde_json::to_string(&object(&finding)).unwrap(),
            r#"{"subject":"cgroup","verdict":"broken","detail":"none is mounted","remedy":"mount one"}"#
        );
    }
}
