//! Checks of the files for Prometheus and Grafana: alert rules and the dashboard.

use anyhow::Result;

use crate::{shell, unpacked::PROMETHEUS};

/// Checks the alert rules and the dashboard with promtool.
pub(crate) fn check_rules() -> Result<()> {
    let promtool = PROMETHEUS.unpack()?.join("usr/bin/promtool");
    shell::run(shell::command("deploy/grafana/validate.sh").env("PROMTOOL", promtool))
}
