//! `cargo xtask dist`: all files of a release, in `target/dist/out`. The same commit gives the same bytes.

mod build;
mod container;
mod contents;
mod machine;
mod package;
mod sbom;
mod sums;
mod tarball;
mod target;
mod tool;

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result, bail};

pub(crate) use self::container::{ImageArgs, run as image};
use self::{build::Source, contents::Contents, target::Target};
use crate::{
    build_ebpf,
    shell::{self, say, step},
};

/// Makes what a release consists of.
#[derive(Debug, clap::Args)]
pub(crate) struct DistArgs {
    /// Target to build for (see --list); may be given more than once [default: both of musl]
    #[arg(long = "target", value_name = "TRIPLE", value_parser = target::parse)]
    targets: Vec<Target>,
    /// List the targets that are known
    #[arg(long)]
    list: bool,
    /// Cargo profile; `dev` builds quickly, and is slow and large
    #[arg(long, value_name = "NAME", default_value = "release")]
    profile: String,
    /// Pack this static binary of the one target that is named, instead of building one
    #[arg(long, value_name = "FILE", requires = "targets", conflicts_with = "twice")]
    binary: Option<PathBuf>,
    /// Directory of the results [default: target/dist/out]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Secret key of minisign that signs the checksums
    #[arg(long, value_name = "FILE", env = "MCPMON_MINISIGN_KEY")]
    key: Option<PathBuf>,
    /// Build a second time, elsewhere, and fail where any byte differs
    #[arg(long)]
    twice: bool,
    /// Then install, upgrade, downgrade and remove each package in a machine with systemd
    #[arg(long)]
    test: bool,
    /// Static binary of a former release that the test upgrades from, and goes back to [default: the same one, packed under an older
    /// version]
    #[arg(long, value_name = "FILE", requires = "test")]
    former: Option<PathBuf>,
}

impl DistArgs {
    /// Returns the absolute directory of the results, because the packing tools run in other directories.
    fn out(&self) -> Result<PathBuf> {
        let out = self
            .out
            .clone()
            .unwrap_or_else(|| shell::target().join("dist/out"));
        std::path::absolute(&out).with_context(|| format!("no path leads to {}", out.display()))
    }
}

/// Builds for each target, makes the release, and tests it if the options ask for that.
pub(crate) fn run(args: &DistArgs) -> Result<()> {
    if args.list {
        for target in target::TARGETS {
            shell::print(target.triple);
        }
        return Ok(());
    }
    let targets = match args.targets.as_slice() {
        [] => &target::TARGETS[..target::USUAL],
        named => named,
    };
    if args.binary.is_some() && targets.len() > 1 {
        bail!("--binary is of one target: name that one");
    }
    let directory = shell::target().join("dist");
    let out = args.out()?;
    let object = build_ebpf::run()?;
    build_ebpf::check_release(&object)?;
    let source = Source::current(shell::repository(), &object)?;
    let release = Release {
        source: &source,
        profile: &args.profile,
        binary: args.binary.as_deref(),
        key: args.key.as_deref(),
        out: &out,
    };
    let build = directory.join("build");
    let first = release.make(targets, &build)?;
    if args.twice {
        twice(args, targets, &first)?;
    }
    for file in &first {
        shell::print(out.join(file).display());
    }
    if args.test {
        machine::test(&release, targets, &build, args.former.as_deref())?;
    }
    Ok(())
}

/// The parts of a release, and the directory of the results.
#[derive(Clone, Copy, Debug)]
struct Release<'a> {
    source: &'a Source,
    profile: &'a str,
    /// A binary that exists already.
    binary: Option<&'a Path>,
    key: Option<&'a Path>,
    out: &'a Path,
}

impl Release<'_> {
    /// Makes the release, and returns the names of its files in the order of their checksums.
    fn make(self, targets: &[Target], build: &Path) -> Result<Vec<String>> {
        empty(self.out)?;
        for target in targets {
            let binary = self.binary(*target, build)?;
            step(&format!("packages for {}", target.triple), || {
                self.package(&binary, *target, &build.join("stage"))
            })?;
        }
        let mut files = sums::write(self.out)?;
        match self.key {
            Some(key) => files.push(sums::sign(self.out, key, &self.source.version)?),
            None => say("NOT SIGNED: no key was named by --key or MCPMON_MINISIGN_KEY"),
        }
        Ok(files)
    }

    /// Returns the binary to pack.
    fn binary(self, target: Target, build: &Path) -> Result<PathBuf> {
        if let Some(binary) = self.binary {
            build::is_static(binary)?;
            return Ok(binary.to_owned());
        }
        step(&format!("build for {}", target.triple), || {
            build::binary(self.source, target, self.profile, build)
        })
    }

    /// Packs one binary in every form.
    fn package(self, binary: &Path, target: Target, stage: &Path) -> Result<()> {
        empty(stage)?;
        let bill = self.out.join(self.file(target, "cdx.json"));
        sbom::write(self.source, target, stage, &bill)?;
        let contents = Contents::stage(
            self.source,
            &build::runner(target)?,
            binary,
            &bill,
            &stage.join("files"),
        )?;
        tarball::write(
            &contents,
            &self.directory(target),
            &self.out.join(self.file(target, "tar.gz")),
        )?;
        package::deb(&contents, target, &stage.join("deb"), self.out)?;
        package::rpm(&contents, target, &stage.join("rpm"), self.out)?;
        container::write(
            self.source,
            binary,
            target,
            &self.out.join(self.file(target, "oci.tar")),
        )
    }

    fn directory(self, target: Target) -> String {
        format!("mcpmon-{}-{}", self.source.version, target.triple)
    }

    fn file(self, target: Target, extension: &str) -> String {
        format!("{}.{extension}", self.directory(target))
    }
}

/// Makes the release again from a copy of the repository in another directory, and compares both.
fn twice(args: &DistArgs, targets: &[Target], first: &[String]) -> Result<()> {
    let directory = shell::target().join("dist/second");
    let out = args.out()?;
    let copy = directory.join("repository");
    empty(&copy)?;
    let again = step("a second build, of a copy in another directory", || {
        let source = Source::copied(shell::repository(), &copy, &directory.join("bpf"))?;
        Release {
            source: &source,
            profile: &args.profile,
            binary: None,
            key: args.key.as_deref(),
            out: &directory.join("out"),
        }
        .make(targets, &directory.join("build"))
    })?;
    if again != first {
        bail!("the second build made other files: {first:?}, then {again:?}");
    }
    for file in first {
        let read =
            |path: PathBuf| fs::read(&path).with_context(|| format!("could not read {}", path.display()));
        if read(out.join(file))? != read(directory.join("out").join(file))? {
            bail!("{file} differs between two builds of the same commit");
        }
    }
    say(format_args!("two builds, the same bytes: {} files", first.len()));
    Ok(())
}

/// Makes an empty directory.
fn empty(directory: &Path) -> Result<()> {
    if directory.exists() {
        fs::remove_dir_all(directory).with_context(|| format!("could not empty {}", directory.display()))?;
    }
    fs::create_dir_all(directory).with_context(|| format!("could not create {}", directory.display()))
}

#[cfg(test)]
mod tests;
