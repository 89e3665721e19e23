//! `mcpmon bundle build|sign|verify|keygen|public-key`: policy bundles for a fleet.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::{MetadataExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use clap::{Args, Subcommand};
use mcpmon_bundle::{
    Bundle, BundleError, BundleFile, BundleKey, FORMAT, MAX_BUNDLE_BYTES, MAX_FILE_BYTES, Manifest,
    PublicKey, VerifiedBundle, is_bundle_name, sign,
};
use mcpmon_config::{Source, check_bundle};
use mcpmon_model::Timestamp;
use serde_json::{Map, Value, json};

use crate::cli::{CliError, ErrorKind, Output};

/// Longest key file that is read, bytes.
const MAX_KEY_BYTES: u64 = 64 << 10;

/// Build, sign and verify policy bundles for a fleet
#[derive(Debug, Args)]
pub(in crate::cli) struct BundleArgs {
    #[command(subcommand)]
    command: BundleCommand,
}

#[derive(Debug, Subcommand)]
enum BundleCommand {
    /// Make a bundle of policy.yaml, suppressions.yaml and pins.yaml in a directory
    Build(Build),
    /// Sign a bundle
    Sign(Sign),
    /// Say what a signed bundle holds; exit 1 where a host would refuse it
    Verify(Verify),
    /// Make a key to sign with, and print the public one
    Keygen {
        /// File for the private key, which must not exist
        file: PathBuf,
    },
    /// Print the public key to a private one
    PublicKey {
        /// File with the private key
        file: PathBuf,
    },
}

#[derive(Debug, Args)]
struct Build {
    /// Directory with policy.yaml, and suppressions.yaml and pins.yaml where there are any
    directory: PathBuf,
    /// File for the bundle
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
    /// Serial, higher than that of any bundle before; the time in seconds where it is missing
    #[arg(long, value_name = "NUMBER")]
    serial: Option<u64>,
    /// Series that it belongs to, for hosts that name one in `policy.bundle.name`
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Time from which on no host takes it any more: `2027-01-01T00:00:00Z`, or `90d` from now
    #[arg(long, value_name = "TIME")]
    expires: Option<String>,
}

#[derive(Debug, Args)]
struct Sign {
    /// File that `mcpmon bundle build` wrote
    file: PathBuf,
    /// File with the private key
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// File for the signed bundle
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,
}

#[derive(Debug, Args)]
struct Verify {
    /// File with a signed bundle
    file: PathBuf,
    /// Public key; several where hosts accept several
    #[arg(long, value_name = "KEY", required = true)]
    key: Vec<String>,
}

/// Runs the command.
///
/// # Errors
/// Returns an error if a file or key cannot be used, or a bundle is refused.
pub(in crate::cli) fn run(
    args: &BundleArgs,
    now: Timestamp,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    match &args.command {
        BundleCommand::Build(options) => build(options, now, output)?,
        BundleCommand::Sign(options) => seal(options, output)?,
        BundleCommand::Verify(options) => verify(options, now, output)?,
        BundleCommand::Keygen { file } => {
            let pem = BundleKey::generate().map_err(environment)?;
            write_key(file, &pem)?;
            public_key(file, output)?;
        }
        BundleCommand::PublicKey { file } => public_key(file, output)?,
    }
    Ok(output.flush()?)
}

fn build(options: &Build, now: Timestamp, output: &mut Output<'_>) -> Result<(), CliError> {
    if let Some(name) = options.name.as_deref().filter(|name| !is_bundle_name(name)) {
        return Err(usage(anyhow::anyhow!(
            "`{name}` is no name of a series: expected letters, digits, `.`, `_` and `-`, 64 at most"
        )));
    }
    let created = instant(now);
    let seconds = u64::try_from(created.as_second()).unwrap_or_default();
    let manifest = Manifest {
        format: FORMAT,
        serial: options.serial.unwrap_or(seconds),
        name: options.name.clone(),
        created,
        expires: options
            .expires
            .as_deref()
            .map(|text| expiry(text, created))
            .transpose()?,
        files: Vec::new(),
    };
    let files = read_directory(&options.directory)?;
    if !files.iter().any(|(file, ..)| *file == BundleFile::Policy) {
        let missing = options.directory.join(BundleFile::Policy.name());
        return Err(usage(anyhow::anyhow!(
            "{} is missing: every bundle has it",
            missing.display()
        )));
    }
    check_bundle(&files).map_err(usage)?;
    let files = files.into_iter().map(|(file, _, text)| (file, text)).collect();
    let bundle = Bundle::new(manifest, files).map_err(usage)?;
    write(&options.output, &bundle.to_tar())?;
    show(&bundle, &options.output, None, output)?;
    Ok(output.note("not signed yet: `mcpmon bundle sign`")?)
}

fn seal(options: &Sign, output: &mut Output<'_>) -> Result<(), CliError> {
    let key = read_key(&options.key)?;
    let unsigned = read_bundle(&options.file)?;
    let signed = sign(&unsigned, &key).map_err(usage)?;
    let verified = VerifiedBundle::open(&signed, &[key.public()]).map_err(usage)?;
    write(&options.output, &signed)?;
    show(&verified.bundle, &options.output, Some(&verified), output)
}

fn verify(options: &Verify, now: Timestamp, output: &mut Output<'_>) -> Result<(), CliError> {
    let keys: Result<Vec<PublicKey>, CliError> = options
        .key
        .iter()
        .map(|text| {
            text.parse()
                .map_err(|error| usage(anyhow::Error::new(error).context(format!("`{text}`"))))
        })
        .collect();
    let (keys, bytes) = (keys?, read_bundle(&options.file)?);
    let refused = |error: BundleError| {
        let error = anyhow::Error::new(error).context(format!("{} is refused", options.file.display()));
        CliError::new(ErrorKind::Refused, error)
    };
    let verified = VerifiedBundle::open(&bytes, &keys).map_err(refused)?;
    let named = |(file, text): &(BundleFile, String)| {
        let name = options.file.join(file.name());
        (*file, Source::File(name), text.clone())
    };
    let files: Vec<_> = verified.bundle.files.iter().map(named).collect();
    check_bundle(&files).map_err(|error| CliError::new(ErrorKind::Refused, error))?;
    verified.check_expiry(instant(now)).map_err(refused)?;
    show(&verified.bundle, &options.file, Some(&verified), output)
}

/// Prints the description of a bundle.
fn show(
    bundle: &Bundle,
    path: &Path,
    signed: Option<&VerifiedBundle>,
    output: &mut Output<'_>,
) -> Result<(), CliError> {
    let manifest = &bundle.manifest;
    let Value::Object(mut object) = serde_json::to_value(manifest).map_err(anyhow::Error::from)? else {
        unreachable!("a manifest is an object")
    };
    object.insert("file".to_owned(), json!(path.display().to_string()));
    if let Some(signed) = signed {
        object.insert("digest".to_owned(), json!(signed.digest));
        object.insert("key".to_owned(), json!(signed.key.to_string()));
    }
    put(output, &object, || {
        let mut lines = Vec::new();
        let mut line = |name: &str, value: String| lines.push(format!("{name:<9} {value}"));
        line("bundle", path.display().to_string());
        line("serial", manifest.serial.to_string());
        if let Some(name) = &manifest.name {
            line("name", name.clone());
        }
        line("created", manifest.created.to_string());
        let expires = manifest
            .expires
            .map_or_else(|| "never".to_owned(), |at| at.to_string());
        line("expires", expires);
        if let Some(signed) = signed {
            line("digest", signed.digest.to_string());
            line("signed by", signed.key.to_string());
        }
        for file in &manifest.files {
            line(
                "file",
                format!("{}, {} bytes, {}", file.name, file.size, file.sha256),
            );
        }
        lines
    })
}

fn public_key(file: &Path, output: &mut Output<'_>) -> Result<(), CliError> {
    let public = read_key(file)?.public().to_string();
    let mut object = Map::new();
    object.insert("file".to_owned(), json!(file.display().to_string()));
    object.insert("public_key".to_owned(), json!(public));
    put(output, &object, || vec![public.clone()])
}

fn put(
    output: &mut Output<'_>,
    object: &Map<String, Value>,
    lines: impl Fn() -> Vec<String>,
) -> Result<(), CliError> {
    match output.form {
        crate::cli::output::Form::Json => output.json(object).map(drop)?,
        crate::cli::output::Form::Table => output.text(&lines())?,
    }
    Ok(())
}

/// Reads the files for a bundle. Any other file is an error, because it would be missing in the bundle.
fn read_directory(directory: &Path) -> Result<Vec<(BundleFile, Source, String)>, CliError> {
    let failed = |error: io::Error| {
        environment(anyhow::Error::new(error).context(format!("cannot read {}", directory.display())))
    };
    let mut files = Vec::new();
    for entry in directory.read_dir().map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let name = path
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        if name.starts_with('.') {
            continue;
        }
        let Some(file) = BundleFile::named(name) else {
            return Err(usage(anyhow::anyhow!(
                "{} would be in no bundle: it holds policy.yaml, suppressions.yaml and pins.yaml; move it elsewhere",
                path.display()
            )));
        };
        let bytes = read(&path, MAX_FILE_BYTES as u64)?;
        let text = String::from_utf8(bytes)
            .map_err(|_no_text| usage(anyhow::anyhow!("{} is no UTF-8 text", path.display())))?;
        files.push((file, Source::File(path), text));
    }
    files.sort_by_key(|(file, ..)| *file);
    Ok(files)
}

fn read_bundle(path: &Path) -> Result<Vec<u8>, CliError> {
    read(path, MAX_BUNDLE_BYTES as u64)
}

/// Reads a key from a file that only its owner can read.
fn read_key(path: &Path) -> Result<BundleKey, CliError> {
    let metadata = fs::metadata(path).map_err(|error| cannot("read", path, error))?;
    if metadata.mode() & 0o077 != 0 {
        let error = anyhow::anyhow!("others can read {}, so that it is no secret", path.display());
        return Err(environment(error).with_hint(format!(
            "`chmod 600 {}`, or make a new key if it may have been read",
            path.display()
        )));
    }
    let pem = read(path, MAX_KEY_BYTES)?;
    BundleKey::from_pem(&pem)
        .map_err(|error| usage(anyhow::Error::new(error).context(path.display().to_string())))
}

fn read(path: &Path, most: u64) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most + 1).read_to_end(&mut bytes));
    read.map_err(|error| cannot("read", path, error))?;
    match bytes.len() as u64 > most {
        true => Err(usage(anyhow::anyhow!(
            "{} is too large: expected at most {most} bytes",
            path.display()
        ))),
        false => Ok(bytes),
    }
}

/// Writes a new file and renames it, so that a server never reads half a bundle.
fn write(path: &Path, bytes: &[u8]) -> Result<(), CliError> {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    let new = PathBuf::from(name);
    let written = fs::write(&new, bytes).and_then(|()| fs::rename(&new, path));
    written.map_err(|error| cannot("write", path, error))
}

fn write_key(path: &Path, pem: &str) -> Result<(), CliError> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path);
    let written = file.and_then(|mut file| file.write_all(pem.as_bytes()));
    written.map_err(|error| {
        let is_there = error.kind() == io::ErrorKind::AlreadyExists;
        let error = cannot("write", path, error);
        match is_there {
            true => error
                .with_hint("a key is never replaced; `mcpmon bundle public-key FILE` prints its public one"),
            false => error,
        }
    })
}

/// Parses a time, or a number of days or hours from now.
fn expiry(text: &str, now: jiff::Timestamp) -> Result<jiff::Timestamp, CliError> {
    let (number, unit) = text.split_at(
        text.len()
            .saturating_sub(text.chars().next_back().map_or(0, char::len_utf8)),
    );
    let hours = match (number.parse::<i64>(), unit) {
        (Ok(days), "d") => days.checked_mul(24),
        (Ok(hours), "h") => Some(hours),
        _ => None,
    };
    let at = match hours {
        Some(hours) => now
            .checked_add(jiff::SignedDuration::from_hours(hours.clamp(0, 1_000_000)))
            .ok(),
        None => text.parse().ok(),
    };
    match at {
        Some(at) if at > now => Ok(at),
        Some(at) => Err(usage(anyhow::anyhow!(
            "it would have expired at {at}: expected a time to come"
        ))),
        None => Err(usage(anyhow::anyhow!(
            "`{text}` is no time such as `2027-01-01T00:00:00Z`, nor a number of days such as `90d`"
        ))),
    }
}

fn instant(now: Timestamp) -> jiff::Timestamp {
    jiff::Timestamp::from_second(now.0 / 1_000_000_000).unwrap_or_default()
}

fn cannot(what: &str, path: &Path, error: io::Error) -> CliError {
    environment(anyhow::Error::new(error).context(format!("cannot {what} {}", path.display())))
}

fn usage(error: impl Into<anyhow::Error>) -> CliError {
    CliError::new(ErrorKind::Usage, error)
}

fn environment(error: impl Into<anyhow::Error>) -> CliError {
    CliError::new(ErrorKind::Environment, error)
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use test_case::test_case;

    use super::*;
    use crate::cli::output::Form;

    #[derive(clap::Parser)]
    struct CommandLine {
        #[command(flatten)]
        args: BundleArgs,
    }

    /// 2026-11-26T12:00:00Z.
    const NOW: Timestamp = Timestamp(1_795_694_400_000_000_000);

    struct Scene(tempfile::TempDir);

    impl Scene {
        fn new() -> Self {
            let scene = Self(tempfile::tempdir().unwrap());
            fs::create_dir(scene.path("policy")).unwrap();
            scene.put("policy/policy.yaml", "version: 1\nmcp:\n  blocked_tools: [rm]\n");
            scene
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        fn put(&self, name: &str, text: &str) {
            fs::write(self.path(name), text).unwrap();
        }

        /// Runs `mcpmon bundle WORDS`, in which `@x` is the file x of this scene.
        fn run(&self, form: Form, words: &[&str]) -> Result<String, (ErrorKind, String)> {
            let word = |word: &&str| match word.strip_prefix('@') {
                Some(name) => self.path(name).display().to_string(),
                None => (*word).to_owned(),
            };
            let words = ["bundle"].iter().chain(words).map(word);
            let args = CommandLine::try_parse_from(words).unwrap().args;
            let (mut data, mut notes) = (Vec::new(), Vec::new());
            let done = run(&args, NOW, &mut Output::plain(&mut data, &mut notes, form));
            let here = self.0.path().display().to_string();
            let plain = |text: String| text.replace(&here, "DIR");
            match done {
                Ok(()) => Ok(plain(String::from_utf8(data).unwrap())),
                Err(error) => Err((error.kind, plain(format!("{:#} {:?}", error.source, error.hints)))),
            }
        }

        fn signed(&self) -> String {
            let key = self.run(Form::Table, &["keygen", "@key"]).unwrap();
            self.run(
                Form::Table,
                &[
                    "build",
                    "@policy",
                    "-o",
                    "@a.tar",
                    "--serial",
                    "7",
                    "--expires",
                    "90d",
                ],
            )
            .unwrap();
            self.run(
                Form::Table,
                &["sign", "@a.tar", "--key", "@key", "-o", "@a.bundle"],
            )
            .unwrap();
            key.trim().to_owned()
        }
    }

    #[test]
    fn a_bundle_is_built_signed_and_verified() {
        let scene = Scene::new();
        let key = scene.signed();
        assert_eq!(fs::metadata(scene.path("key")).unwrap().mode() & 0o777, 0o600);
        assert_eq!(
            scene.run(Form::Table, &["public-key", "@key"]).unwrap().trim(),
            key
        );
        let shown = scene
            .run(Form::Table, &["verify", "@a.bundle", "--key", &key])
            .unwrap();
        let digest = mcpmon_model::Digest::of(&fs::read(scene.path("a.bundle")).unwrap()).to_string();
        let shown = shown.replace(&key, "KEY").replace(&digest, "DIGEST");
        insta::assert_snapshot!(shown, @r"
        bundle    DIR/a.bundle
        serial    7
        created   2026-11-26T12:00:00Z
        expires   2027-02-24T12:00:00Z
        digest    DIGEST
        signed by KEY
        file      policy.yaml, 38 bytes, sha256:13ecff15500a7912d9caf3962f9b8e7b8d89fd09b5098333126741bd1b652f5d
        ");
        let json = scene
            .run(Form::Json, &["verify", "@a.bundle", "--key", &key])
            .unwrap();
        let json: Value = serde_json::from_str(&json).unwrap();
        assert_eq!(
            (&json["serial"], &json["digest"], &json["key"]),
            (&json!(7), &json!(digest), &json!(key))
        );
        assert_eq!(json["files"][0]["name"], "policy.yaml");
        let by_time = scene
            .run(Form::Json, &["build", "@policy", "-o", "@b.tar"])
            .unwrap();
        let by_time: Value = serde_json::from_str(&by_time).unwrap();
        assert_eq!(by_time["serial"], 1_795_694_400);
        assert_eq!(by_time["digest"], Value::Null, "it is not signed");
    }

    #[test_case("mode: loud\n", "DIR/policy/policy.yaml:1:7: mode: unknown value `loud`"; "a mistake")]
    #[test_case("record: {path: /x}\n", "DIR/policy/policy.yaml:1:1: record: `record` is in no bundle"; "a key of hosts")]
    fn an_invalid_policy_is_not_built(text: &str, expected: &str) {
        let scene = Scene::new();
        scene.put("policy/policy.yaml", text);
        let (kind, error) = scene
            .run(Form::Table, &["build", "@policy", "-o", "@a.tar"])
            .unwrap_err();
        assert_eq!(kind, ErrorKind::Usage);
        assert!(error.contains(expected), "{error}");
        assert!(!scene.path("a.tar").exists());
    }

    #[test]
    fn what_is_in_no_bundle_is_told_where_it_is_built() {
        let scene = Scene::new();
        scene.put("policy/run.sh", "");
        let (kind, error) = scene
            .run(Form::Table, &["build", "@policy", "-o", "@a.tar"])
            .unwrap_err();
        assert!(
            kind == ErrorKind::Usage && error.contains("run.sh would be in no bundle"),
            "{error}"
        );
        fs::remove_file(scene.path("policy/run.sh")).unwrap();
        fs::rename(
            scene.path("policy/policy.yaml"),
            scene.path("policy/.policy.yaml"),
        )
        .unwrap();
        let (_, error) = scene
            .run(Form::Table, &["build", "@policy", "-o", "@a.tar"])
            .unwrap_err();
        assert!(error.contains("policy.yaml is missing"), "{error}");
        let (kind, error) = scene
            .run(Form::Table, &["build", "@none", "-o", "@a.tar"])
            .unwrap_err();
        assert!(
            kind == ErrorKind::Environment && error.contains("cannot read DIR/none"),
            "{error}"
        );
    }

    #[test]
    fn what_a_host_refuses_is_refused() {
        let scene = Scene::new();
        let key = scene.signed();
        let other = scene.run(Form::Table, &["keygen", "@other"]).unwrap();
        let refused = |words: &[&str], expected: &str| {
            let (kind, error) = scene.run(Form::Table, words).unwrap_err();
            assert!(error.contains(expected), "{error}");
            kind
        };
        let kind = refused(
            &["verify", "@a.bundle", "--key", other.trim()],
            "signed with another key",
        );
        assert_eq!(kind, ErrorKind::Refused);
        let kind = refused(&["verify", "@a.tar", "--key", &key], "no signature at its end");
        assert_eq!(kind, ErrorKind::Refused);
        assert_eq!(
            refused(&["verify", "@a.bundle", "--key", "x"], "no public key"),
            ErrorKind::Usage
        );
        assert_eq!(
            refused(&["verify", "@none", "--key", &key], "cannot read DIR/none"),
            ErrorKind::Environment
        );
        let kind = refused(
            &["sign", "@a.bundle", "--key", "@key", "-o", "@b"],
            "signed already",
        );
        assert_eq!(kind, ErrorKind::Usage);
        refused(
            &["sign", "@policy/policy.yaml", "--key", "@key", "-o", "@b"],
            "no tar archive",
        );
        refused(
            &["sign", "@a.tar", "--key", "@policy/policy.yaml", "-o", "@b"],
            "others can read",
        );
        refused(&["keygen", "@key"], "a key is never replaced");
        assert_eq!(
            scene.run(Form::Table, &["public-key", "@key"]).unwrap().trim(),
            key
        );
        refused(
            &["build", "@policy", "-o", "@b", "--name", "a b"],
            "no name of a series",
        );
        refused(
            &["build", "@policy", "-o", "@b", "--serial", "0"],
            "the serial 0 is not from 1",
        );
        refused(
            &["build", "@policy", "-o", "@b", "--expires", "soon"],
            "no time such as",
        );
        refused(
            &["build", "@policy", "-o", "@b", "--expires", "0d"],
            "it would have expired",
        );
    }
}
