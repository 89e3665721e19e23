//! The daemon's metrics, scraped while it enforces.

use anyhow::Result;
use mcpmon_e2e::{background::free_address, daemon::Daemon, host::Host, prometheus::get, wait};

#[test]
fn metrics_say_what_is_proved_of_the_enforcement() -> Result<()> {
    let Some(host) = Host::take(&[])? else {
        return Ok(());
    };
    let address = free_address()?;
    let daemon = Daemon::start(
        &host,
        &format!("version: 1\nmetrics: {{listen: \"{address}\"}}\n"),
    )?;
    let scrape = |line: &str| {
        wait::until(line, || {
            let Ok((200, text)) = get(address, "/metrics") else {
                return Ok(None);
            };
            Ok(text.lines().any(|found| found.starts_with(line)).then_some(text))
        })
    };
    let text = scrape("mcpmon_enforcement_effective{component=\"network_gate\"} 1")?;
    for line in [
        "mcpmon_enforcement_effective{component=\"packet_gate\"} 1",
        "mcpmon_enforcement_effective{component=\"exec_sensor\"} 1",
        "mcpmon_kernel_total{counter=\"denied\"} ",
        "mcpmon_kernel_total{counter=\"exec_killed\"} ",
        "mcpmon_store_bytes ",
        "mcpmon_policy_info{digest=\"sha256:",
    ] {
        assert!(
            text.lines().any(|found| found.starts_with(line)),
            "{line}\n{text}"
        );
    }
    // The metrics follow the policy.
    daemon.adopt("version: 1\n")?;
    wait::until("nothing to listen", || {
        Ok(get(address, "/metrics").is_err().then_some(()))
    })
}
