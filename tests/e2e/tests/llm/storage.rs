//! Bodies that the proxy keeps are encrypted, truncated, listed without a key, and read only with the right one.

use std::{fs, os::unix::fs::PermissionsExt as _, path::PathBuf};

use anyhow::Result;
use mcpmon_e2e::{
    json::{number, text},
    program::{self, Run},
    proxy::Proxy,
    wait,
};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::bodies::{ANTHROPIC, ask, wait_for};

/// The model's answer.
const SAID: &str = "abcdwxyz and a good deal more than is kept of it";
/// The number of bytes that are kept.
const KEPT: u64 = 150;

/// A directory with keys.
struct Keys(TempDir);

impl Keys {
    fn new() -> Result<Self> {
        Ok(Self(TempDir::new()?))
    }

    fn write(&self, name: &str, text: &str, mode: u32) -> Result<PathBuf> {
        let path = self.0.path().join(name);
        fs::write(&path, text)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
        Ok(path)
    }
}

/// Starts a proxy with this `llm_storage`, and makes one exchange.
fn asked(storage: &str) -> Result<Proxy> {
    let script = json!({"piece": 4, "turns": [[{"text": SAID}]]});
    let proxy = Proxy::start(&script, &format!("llm_storage: {{{storage}}}\n"))?;
    let mut answer = ask(&proxy, ANTHROPIC)?;
    wait_for(&mut answer, &["message_stop"])?;
    Ok(proxy)
}

fn bodies(proxy: &Proxy, arguments: &[&str]) -> Result<Run> {
    let store = proxy.scene.store().display().to_string();
    program::run([&["bodies"], arguments, &["--json", "--db", &store]].concat())
}

fn listed(proxy: &Proxy) -> Result<Vec<Value>> {
    bodies(proxy, &["list"])?.objects()
}

#[test]
fn what_is_kept_is_sealed_and_read_with_its_key_alone() -> Result<()> {
    let keys = Keys::new()?;
    let key = keys.write("key", &"5a".repeat(32), 0o600)?.display().to_string();
    let other = keys
        .write("other", &"a5".repeat(32), 0o600)?
        .display()
        .to_string();
    let proxy = asked(&format!(
        "store_bodies: true, key_file: \"{key}\", max_body: {KEPT}B"
    ))?;
    let kept = wait::until("both bodies", || {
        Ok(Some(listed(&proxy)?).filter(|kept| kept.len() == 2))
    })?;
    assert_eq!(
        [text(&kept[0], "side"), text(&kept[1], "side")],
        ["request", "response"]
    );
    assert_eq!(number(&kept[0], "bytes"), ANTHROPIC.1.len() as u64);
    assert_eq!(
        (number(&kept[1], "kept"), kept[1]["cut"].as_bool()),
        (KEPT, Some(true))
    );
    for end in ["", "-wal"] {
        let path = format!("{}{end}", proxy.scene.store().display());
        let stored = fs::read(path).unwrap_or_default();
        let clear = br#""role":"user""#;
        assert!(
            !stored.windows(clear.len()).any(|part| part == clear),
            "in clear in {end}"
        );
    }

    let request = text(&kept[0], "request_id");
    let shown = bodies(&proxy, &["show", request, "--key-file", &key])?.objects()?;
    assert_eq!(text(&shown[0], "body"), ANTHROPIC.1);
    assert_eq!(text(&shown[1], "body").len() as u64, KEPT);

    for (arguments, code, said) in [
        (
            vec!["show", request, "--key-file", &other],
            1,
            "it was sealed with the key",
        ),
        (
            vec!["show", "nonesuch", "--key-file", &key],
            1,
            "no body of `nonesuch` is kept",
        ),
        (
            vec!["show", request, "--key-file", "/nonexistent"],
            3,
            "cannot read the key",
        ),
        (vec!["show", request], 2, "--key-file"),
        (vec!["list", "--limit", "0"], 2, "--limit"),
    ] {
        let refused = bodies(&proxy, &arguments)?;
        assert_eq!(refused.code, Some(code), "{arguments:?}: {}", refused.stderr);
        assert!(refused.stderr.contains(said), "{}", refused.stderr);
        assert_eq!(refused.stdout, "");
    }
    Ok(())
}

#[test]
fn bodies_that_are_too_old_are_not_there() -> Result<()> {
    let keys = Keys::new()?;
    let key = keys.write("key", &"5a".repeat(32), 0o600)?;
    let proxy = asked(&format!(
        "store_bodies: true, key_file: \"{}\", retention: 10s",
        key.display()
    ))?;
    wait::until("both bodies", || Ok((listed(&proxy)?.len() == 2).then_some(())))?;
    wait::until("their end", || Ok(listed(&proxy)?.is_empty().then_some(())))?;
    Ok(())
}

#[test]
fn without_a_usable_key_nothing_is_kept_and_that_is_told() -> Result<()> {
    let keys = Keys::new()?;
    let open = keys.write("open", &"5a".repeat(32), 0o644)?;
    let short = keys.write("short", "5a", 0o600)?;
    let missing = keys.0.path().join("missing");
    let cases = [
        ("store_bodies: true".to_owned(), "llm_storage.key_file"),
        (
            format!("store_bodies: true, key_file: \"{}\"", open.display()),
            "chmod 600",
        ),
        (
            format!("store_bodies: true, key_file: \"{}\"", short.display()),
            "openssl rand -hex 32",
        ),
        (
            format!("store_bodies: true, key_file: \"{}\"", missing.display()),
            "cannot read the key",
        ),
    ];
    for (storage, cause) in cases {
        let proxy = asked(&storage)?;
        assert!(proxy.log().contains("no bodies kept"), "{}", proxy.log());
        let told = wait::until("the degradation", || {
            Ok(proxy.scene.events("mcp_enforcement_degraded")?.pop())
        })?;
        assert!(text(&told, "cause").contains(cause), "{told}");
        assert_eq!(listed(&proxy)?, Vec::<Value>::new());
    }
    Ok(())
}
