//! The Debian and RPM packages, made by cargo-deb and cargo-generate-rpm from the same list of files.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result, ensure};
use jiff::{Timestamp, fmt::rfc2822, tz::TimeZone};
use serde_json::json;

use super::{
    contents::{Contents, Entry, Kind, ZSH},
    target::Target,
    tool::{self, Tool},
};
use crate::shell;

const SUMMARY: &str = "Sees and stops what Model Context Protocol servers do on a Linux host";
const DESCRIPTION: &str = "A daemon with programs in the kernel, a wrapper for the pipes of servers, and proxies for MCP over \
                           HTTP and for language models. One policy decides, and what was decided is recorded.";
/// The completions of zsh on Debian.
const DEBIAN_ZSH: &str = "usr/share/zsh/vendor-completions/_mcpmon";

/// Writes `mcpmon_VERSION-1_ARCHITECTURE.deb`.
pub(super) fn deb(contents: &Contents, target: Target, stage: &Path, out: &Path) -> Result<()> {
    scripts(contents, "deb", &stage.join("scripts"))?;
    fs::write(stage.join("license"), DEBIAN_LICENSE)?;
    fs::write(stage.join("changelog"), debian_changelog(contents)?)?;
    let assets = contents.entries.iter().filter(|entry| entry.path != LICENSE);
    let assets = assets.map(|entry| {
        let path = if entry.path == ZSH {
            DEBIAN_ZSH
        } else {
            &entry.path
        };
        format!(
            "  [{}, {}, \"{:o}\"],\n",
            text(&staged(contents, entry)),
            text(path),
            entry.mode()
        )
    });
    let configuration = contents
        .entries
        .iter()
        .filter(|entry| entry.kind == Kind::Configuration);
    let configuration = configuration.map(|entry| text(&format!("/{}", entry.path)));
    let manifest = format!(
        "{}[package.metadata.deb]\nmaintainer = \"{MAINTAINER}\"\n\
         copyright = \"The mcpmon project\"\nlicense-file = [\"license\", \"0\"]\nchangelog = \"changelog\"\nsection = \"admin\"\n\
         priority = \"optional\"\ndepends = \"ca-certificates, systemd | systemd-standalone-sysusers\"\nextended-description = {}\n\
         maintainer-scripts = \"scripts\"\nconf-files = [{}]\nassets = [\n{}]\n\n\
         [package.metadata.deb.systemd-units]\nunit-name = \"mcpmon\"\nrestart-after-upgrade = true\nstop-on-upgrade = false\n",
        package(contents),
        text(DESCRIPTION),
        configuration.collect::<Vec<_>>().join(", "),
        assets.collect::<String>(),
    );
    let to = out.join(format!("mcpmon_{}-1_{}.deb", contents.version, target.debian));
    let mut command = tool(tool::DEB, "deb", contents, stage, &manifest)?;
    command
        .args([
            "--no-build",
            "--quiet",
            "--no-strip",
            "--compress-type",
            "gz",
            "--fast",
            "--target",
            target.triple,
            "--output",
        ])
        .arg(&to);
    pack(&mut command, &to)
}

/// Writes `mcpmon-VERSION-1.ARCHITECTURE.rpm`.
pub(super) fn rpm(contents: &Contents, target: Target, stage: &Path, out: &Path) -> Result<()> {
    scripts(contents, "rpm", &stage.join("scripts"))?;
    let assets = contents.entries.iter().map(|entry| {
        let property = match entry.kind {
            Kind::Configuration => ", config = \"noreplace\"",
            Kind::Documentation => ", doc = true",
            Kind::Program | Kind::Data => "",
        };
        format!(
            "  {{ source = {}, dest = {}, mode = \"{:o}\"{property} }},\n",
            text(&staged(contents, entry)),
            text(&format!("/{}", entry.path)),
            entry.mode()
        )
    });
    let manifest = format!(
        "{}[package.metadata.generate-rpm]\nsummary = {}\nrelease = \"1\"\nauto-req = \"no\"\n\
         post_install_script = \"scripts/post.sh\"\npre_uninstall_script = \"scripts/preun.sh\"\n\
         post_uninstall_script = \"scripts/postun.sh\"\nassets = [\n{}]\n\n\
         [package.metadata.generate-rpm.requires]\nca-certificates = \"*\"\nsystemd = \"*\"\n",
        package(contents),
        text(SUMMARY),
        assets.collect::<String>(),
    );
    let to = out.join(format!("mcpmon-{}-1.{}.rpm", contents.version, target.arch));
    let mut command = tool(tool::GENERATE_RPM, "generate-rpm", contents, stage, &manifest)?;
    command.args([
        "--payload-compress",
        "gzip",
        "--target",
        target.triple,
        "--output",
    ]);
    command.arg(&to);
    pack(&mut command, &to)
}

/// Runs a tool that has to write the package `to`.
fn pack(command: &mut Command, to: &Path) -> Result<()> {
    shell::run(command)?;
    ensure!(to.is_file(), "it wrote no {}", to.display());
    Ok(())
}

const MAINTAINER: &str = "The mcpmon project <maintainers@mcpmon.invalid>";
/// The licence, which Debian keeps once for all packages.
const LICENSE: &str = "usr/share/doc/mcpmon/LICENSE";
const DEBIAN_LICENSE: &str =
    " The full text of the Apache License 2.0 is in\n /usr/share/common-licenses/Apache-2.0.\n";

/// Returns the changelog of the package, which refers to that of the program.
fn debian_changelog(contents: &Contents) -> Result<String> {
    let date = i64::try_from(contents.date).context("a date out of range")?;
    let date = rfc2822::to_string(&Timestamp::from_second(date)?.to_zoned(TimeZone::UTC))?;
    Ok(format!(
        "mcpmon ({}-1) stable; urgency=medium\n\n  * What changed is in /usr/share/doc/mcpmon/changelog.gz.\n\n -- {MAINTAINER}  {date}\n",
        contents.version
    ))
}

fn staged(contents: &Contents, entry: &Entry) -> String {
    contents.root.join(&entry.path).display().to_string()
}

/// Returns a TOML string, whose escapes are those of JSON.
fn text(value: &str) -> String {
    json!(value).to_string()
}

/// Returns the beginning of a manifest, for a package without sources.
fn package(contents: &Contents) -> String {
    format!(
        "[package]\nname = \"mcpmon\"\nversion = {}\nedition = \"2024\"\nlicense = \"Apache-2.0\"\ndescription = {}\n\
         [lib]\npath = \"empty.rs\"\n[workspace]\n",
        text(&contents.version),
        text(SUMMARY)
    )
}

/// Returns the command of a tool that reads this manifest.
fn tool(tool: Tool, subcommand: &str, contents: &Contents, stage: &Path, manifest: &str) -> Result<Command> {
    let write = |name: &str, content: &str| {
        let path = stage.join(name);
        fs::write(&path, content).with_context(|| format!("could not write {}", path.display()))
    };
    write("Cargo.toml", manifest)?;
    write("empty.rs", "")?;
    let mut command = Command::new(tool::provide(tool)?);
    command
        .arg(subcommand)
        .current_dir(stage)
        .env_remove("CARGO_TARGET_DIR")
        .env("SOURCE_DATE_EPOCH", contents.date.to_string());
    Ok(command)
}

/// Copies the scripts that a package manager runs.
fn scripts(contents: &Contents, kind: &str, to: &Path) -> Result<()> {
    super::empty(to)?;
    let from: PathBuf = contents.repository.join("deploy/packages").join(kind);
    for script in fs::read_dir(&from).with_context(|| format!("could not list {}", from.display()))? {
        let script = script?;
        let copy = to.join(script.file_name());
        fs::copy(script.path(), &copy).with_context(|| format!("could not copy {}", copy.display()))?;
        fs::set_permissions(&copy, fs::Permissions::from_mode(0o755))?;
    }
    Ok(())
}
