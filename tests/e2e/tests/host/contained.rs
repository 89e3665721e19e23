//! The image in a container, as the DaemonSet runs it, with other containers: their connections are refused and
//! reported with the names of their containers, also after these have ended.

use std::{
    fs,
    io::Read as _,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    process::Stdio,
};

use anyhow::{Context as _, Result, ensure};
use mcpmon_e2e::{
    daemon::Daemon,
    daemon_set::DaemonSet,
    host::Host,
    json::text,
    network::Listener,
    podman::{Podman, groups, hierarchies},
    site::Site,
    wait,
};
use serde_json::{Value, json};

/// The number of containers that only connect and end.
const SHORT: usize = 5;

/// The capability from which most of the others were once split off.
const ADMIN: &str = "SYS_ADMIN";

/// A daemon in a container, and addresses that other containers connect to.
struct Contained {
    podman: Podman,
    daemon: Daemon,
    refused: Listener,
    unlisted: Listener,
}

#[test]
fn connections_of_other_containers() -> Result<()> {
    let Some(host) = Host::take(&["podman", "runc", "bash", "setpriv"])? else {
        return Ok(());
    };
    let own = groups("libpod_parent")?;
    let (directory, left) = left_by_aborted_test()?;
    let Some(podman) = Podman::take()? else {
        return Ok(());
    };
    assert!(
        !directory.exists() && !left.exists(),
        "the next test removes them"
    );
    podman.load_image()?;
    let mut set = DaemonSet::read()?;

    let contained = Contained::start(&host, podman, &set, None)?;
    contained.connects_while_it_lives()?;
    contained.connects_and_ends()?;
    let status = contained.daemon.status()?;
    assert_eq!(status["degraded"], json!({}), "with what the DaemonSet has");
    let podman = contained.end()?;

    let all = set.capabilities.len();
    set.capabilities.retain(|name| name != ADMIN);
    ensure!(
        set.capabilities.len() < all,
        "the DaemonSet has no {ADMIN} to begin with"
    );
    let profile = podman.profile_with_bpf()?;
    let contained = Contained::start(&host, podman, &set, Some(&profile))?;
    contained.connects_while_it_lives()?;
    contained.connects_and_ends()?;
    // Only one thing is lost: connections made before a rule are not cut in other network namespaces.
    let degraded = wait::until("what is lost", || {
        let status = contained.daemon.status()?;
        let degraded = status["degraded"].as_object().context("no object")?.clone();
        Ok((!degraded.is_empty()).then_some(degraded))
    })?;
    assert_eq!(degraded.keys().collect::<Vec<_>>(), ["open connections"]);
    assert!(text(&json!(degraded), "open connections").contains("CAP_SYS_ADMIN"));
    let podman = contained.end()?;
    let name = podman.group();
    assert_ne!(
        groups(&name)?,
        Vec::<PathBuf>::new(),
        "its containers were in one"
    );
    drop(podman);
    assert_eq!(groups(&name)?, Vec::<PathBuf>::new());
    assert_eq!(groups("libpod_parent")?, own, "podman's own");
    Ok(())
}

/// The directory and a control group of an engine that nobody ended.
fn left_by_aborted_test() -> Result<(PathBuf, PathBuf)> {
    let name = format!("mcpmon-podman-aborted{}", std::process::id());
    let directory = Path::new("/var/tmp").join(&name);
    fs::DirBuilder::new().mode(0o700).create(&directory)?;
    let group = hierarchies()?.pop().context("no control groups")?.join(&name);
    fs::create_dir_all(group.join("conmon"))?;
    Ok((directory, group))
}

impl Contained {
    fn start(host: &Host, podman: Podman, set: &DaemonSet, seccomp: Option<&Path>) -> Result<Self> {
        let [refused, unlisted] = [Listener::open()?, Listener::open()?];
        let site = Site::new(&format!(
            "version: 1\nnetwork: {{watch: [], deny: [{{name: contained-e2e, cidrs: [\"{}\"]}}]}}\n",
            refused.ip()
        ))?;
        let command = podman.daemon(set, &site, seccomp)?;
        Ok(Self {
            daemon: Daemon::start_by(host, site, command)?,
            podman,
            refused,
            unlisted,
        })
    }

    /// Lets a container's process connect and live until the daemon has looked at it.
    fn connects_while_it_lives(&self) -> Result<()> {
        // Nothing listens in its network, so an allowed attempt is answered with "connection refused".
        let line = format!("{}; {}; read -r", self.unlisted.bash(), self.refused.bash());
        let id = self.id_file("living");
        let mut container = self.podman.shell(&line, Some(&id));
        let mut container = container
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()?;
        let event = self.refusals(1)?.remove(0);
        let id = fs::read_to_string(id)?;
        assert_eq!(text(&event, "container_id"), id, "{event}");
        assert!(text(&event, "exe").ends_with("/bash"), "{event}");
        assert_eq!(text(&event, "rule"), "contained-e2e");
        drop(container.stdin.take());
        let mut said = String::new();
        let mut errors = container.stderr.take().context("a pipe was asked for")?;
        errors.read_to_string(&mut said)?;
        container.wait()?;
        let tells = |listener: &Listener, error: &str| {
            let port = listener.target().port().to_string();
            said.lines()
                .any(|line| line.contains(&port) && line.ends_with(error))
        };
        assert!(tells(&self.unlisted, "Connection refused"), "{said}");
        assert!(tells(&self.refused, "Operation not permitted"), "{said}");
        Ok(())
    }

    /// Lets containers connect and end at once; the daemon knows afterwards which ones they were.
    fn connects_and_ends(&self) -> Result<()> {
        let before = self.refusals(0)?.len();
        let mut ids = Vec::new();
        for number in 0..SHORT {
            let id = self.id_file(&number.to_string());
            let output = self.podman.shell(&self.refused.bash(), Some(&id)).output()?;
            assert!(!output.status.success(), "it connected");
            ids.push(fs::read_to_string(id)?);
        }
        let events = self.refusals(before + SHORT)?;
        let named: Vec<&str> = events[before..]
            .iter()
            .map(|event| text(event, "container_id"))
            .collect();
        assert_eq!(named, ids, "{events:?}");
        Ok(())
    }

    fn id_file(&self, name: &str) -> PathBuf {
        self.daemon.site.path(&format!("{name}.id"))
    }

    /// Waits until there are this many refusals, and returns them in order.
    fn refusals(&self, number: usize) -> Result<Vec<Value>> {
        wait::until(&format!("{number} refusals"), || {
            let mut events = self.daemon.site.events()?;
            events.retain(|event| text(event, "remote_addr") == self.refused.target().to_string());
            Ok((events.len() >= number).then_some(events))
        })
        .with_context(|| self.daemon.log())
    }

    /// Ends the daemon, which must succeed.
    fn end(self) -> Result<Podman> {
        let (_, status) = self.daemon.end()?;
        ensure!(status.success(), "the daemon ended with {status}");
        Ok(self.podman)
    }
}
