//! A policy from a signed bundle, with a host's own files.

use std::{fs, path::Path, time::Instant};

use insta::assert_snapshot;
use mcpmon_bundle::{Bundle, BundleFile, BundleKey, FORMAT, Manifest, VerifiedBundle, sign};
use mcpmon_policy::{Handling, Mode};
use test_case::test_case;

use crate::{
    LoadedConfiguration, ReloadOccasion, Reloader, Search, Source, Sources, Trust, check_bundle, load,
    load_sources,
};

const POLICY: &str = "version: 1\nmcp:\n  sampling: audit\n  blocked_tools: [of_the_fleet]\n";

fn key() -> BundleKey {
    let pem = "-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n";
    BundleKey::from_pem(pem.as_bytes()).expect("a key")
}

fn bundle(serial: u64, files: &[(BundleFile, &str)]) -> VerifiedBundle {
    let manifest = Manifest {
        format: FORMAT,
        serial,
        name: None,
        created: "2026-11-26T12:00:00Z".parse().expect("a time"),
        expires: None,
        files: Vec::new(),
    };
    let files = files.iter().map(|(file, text)| (*file, (*text).to_owned()));
    let bundle = Bundle::new(manifest, files.collect()).expect("a bundle");
    let bytes = sign(&bundle.to_tar(), &key()).expect("signed");
    VerifiedBundle::open(&bytes, &[key().public()]).expect("verified")
}

/// A host's own file that accepts bundles of [`key`].
fn host(more: &str) -> String {
    let key = key().public();
    format!("policy: {{bundle: {{url: 'https://policy.example.com/a.bundle', public_key: '{key}'}}}}\n{more}")
}

fn composed(bundle: &VerifiedBundle, own: &str) -> Result<LoadedConfiguration, String> {
    let own = Sources::of_texts(&[("host.yaml", own)]);
    load_sources(&own.on_bundle(bundle)).map_err(|error| error.to_string())
}

fn blocked(loaded: &LoadedConfiguration) -> Vec<&str> {
    let layers = loaded.policy.rules.layers();
    let globs = layers.flat_map(|rules| &rules.blocked_tools);
    let mut names: Vec<&str> = globs.map(|glob| glob.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

#[test]
fn the_bundle_is_the_policy_and_the_file_has_the_settings() {
    let fleet = bundle(
        7,
        &[
            (BundleFile::Policy, POLICY),
            (
                BundleFile::Suppressions,
                "mcp: {suppressions: [{rule: persona, reason: known}]}\n",
            ),
        ],
    );
    let loaded = composed(
        &fleet,
        &host("record: {retention: 3d}\nmetrics: {listen: '127.0.0.1:9484'}\n"),
    )
    .expect("valid");
    assert_eq!(loaded.policy.requests.sampling, Handling::Audit);
    assert_eq!(blocked(&loaded), ["of_the_fleet"]);
    assert_eq!(loaded.policy.suppressions.len(), 1);
    assert_eq!(loaded.settings.record.retention.as_secs(), 3 * 86_400);
    assert!(loaded.settings.metrics.is_some() && loaded.settings.bundle.is_some());
    assert_eq!(loaded.text.bundle(), Some(fleet.id()));
    assert_eq!(
        loaded.path(),
        "bundle 7/policy.yaml, bundle 7/suppressions.yaml, host.yaml"
    );
    // A wrapper receives the parts, and gets the same result.
    let parts = serde_json::to_string(loaded.text.parts()).expect("JSON");
    let handed = Sources::of_parts(serde_json::from_str(&parts).expect("the same")).expect("parts");
    let handed = load_sources(&handed).expect("valid");
    assert_eq!((handed.policy, handed.hash), (loaded.policy, loaded.hash));
}

#[test]
fn the_file_can_only_tighten_the_bundle() {
    let fleet = bundle(7, &[(BundleFile::Policy, POLICY)]);
    let loaded = composed(
        &fleet,
        &host(
            "mode: observe\nmcp: {sampling: block, blocked_tools: [of_the_host], suppressions: [{rule: '*', reason: mine}]}\n",
        ),
    );
    let observing = loaded.expect("valid");
    assert_eq!(observing.policy.mode, Mode::Enforce);
    assert_eq!(
        blocked(&observing),
        ["of_the_fleet"],
        "who observes takes nothing away"
    );
    let loaded = composed(
        &fleet,
        &host(
            "mcp: {sampling: block, elicitation: allow, blocked_tools: [of_the_host], suppressions: [{rule: '*', reason: mine}]}\n",
        ),
    );
    let tightened = loaded.expect("valid");
    assert_eq!(tightened.policy.requests.sampling, Handling::Block);
    assert_eq!(tightened.policy.requests.elicitation, Handling::Audit);
    assert_eq!(blocked(&tightened), ["of_the_fleet", "of_the_host"]);
    assert!(tightened.policy.suppressions.is_empty());
    let told: Vec<String> = tightened.not_in_force.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["mcp.suppressions (taken from the bundle alone)"]);
    let wrong = composed(&fleet, &host("mcp: {sampling: never}\n")).expect_err("a mistake of the host");
    assert!(wrong.starts_with("host.yaml:2:17: mcp.sampling"), "{wrong}");
}

#[test_case(BundleFile::Policy, "record: {webhook_url: 'https://a.example.com/'}\n", "policy.yaml:1:1: record: `record` is in no bundle"; "an export")]
#[test_case(BundleFile::Policy, "record: {path: /tmp/x.db}\n", "policy.yaml:1:1: record: `record` is in no bundle"; "a path")]
#[test_case(BundleFile::Policy, "proxy: {listen: '0.0.0.0:80', token_file: /x}\n", "policy.yaml:1:1: proxy: `proxy` is in no bundle"; "a listener")]
#[test_case(BundleFile::Policy, "llm_storage: {key_file: /etc/shadow}\n", "`llm_storage` is in no bundle"; "a key")]
#[test_case(BundleFile::Policy, "metrics: {listen: '127.0.0.1:1'}\n", "`metrics` is in no bundle"; "an endpoint")]
#[test_case(BundleFile::Policy, "policy: {bundle: {url: ''}}\n", "`policy` is in no bundle"; "another bundle")]
#[test_case(BundleFile::Policy, "mode: loud\n", "policy.yaml:1:7: mode: unknown value `loud`"; "a mistake")]
#[test_case(BundleFile::Pins, "mcp: {version_pinning: {enabled: false, known: []}}\n", "mcp.version_pinning.enabled: `pins.yaml` holds `mcp.version_pinning.known` only"; "a switch among pins")]
#[test_case(BundleFile::Pins, "mcp: {version_pinning: {known: [{server: a, content_hash: x}]}}\n", "not a SHA-256 digest"; "no digest")]
#[test_case(BundleFile::Pins, "mcp: {version_pinning: {known: [{server: a, content_hash: 'sha256:00000000000000000000000000000000000000000000000000000000000000ff'}]}}\n", "expected the name of the definition"; "a pin of nothing")]
#[test_case(BundleFile::Suppressions, "mode: observe\n", "suppressions.yaml:1:1: mode: `suppressions.yaml` holds `mcp.suppressions` only"; "a mode among suppressions")]
#[test_case(BundleFile::Suppressions, "mcp: {sampling: allow}\n", "suppressions.yaml:1:7: mcp.sampling: `suppressions.yaml` holds"; "a rule among suppressions")]
fn what_a_bundle_cannot_say(file: BundleFile, text: &str, expected: &str) {
    let policy = (BundleFile::Policy, "version: 1\n");
    let files = match file {
        BundleFile::Policy => vec![(file, text)],
        BundleFile::Suppressions | BundleFile::Pins => vec![policy, (file, text)],
    };
    let refused = composed(&bundle(7, &files), &host("")).expect_err("refused");
    assert!(refused.contains(expected), "{refused}");
    let named =
        |(file, text): &(BundleFile, &str)| (*file, Source::File(file.name().into()), (*text).to_owned());
    let files: Vec<_> = files.iter().map(named).collect();
    let refused = check_bundle(&files)
        .expect_err("refused where it is built")
        .to_string();
    assert!(refused.contains(expected), "{refused}");
}

#[test_case("url: 'http://policy.example.com/a'", "`http` is taken from this host only"; "plain")]
#[test_case("url: 'ftp://policy.example.com/a'", "`ftp` is no scheme of a bundle"; "another scheme")]
#[test_case("url: 'https://me:secret@policy.example.com/a'", "cannot contain a user name or password"; "a password")]
#[test_case("url: 'policy.example.com/a'", "is no URL such as"; "no URL")]
#[test_case("url: 'https://a.example.com/a', interval: 0s", "expected a time from `1s` to `1d`"; "without a pause")]
#[test_case("url: 'https://a.example.com/a', name: a b", "expected letters, digits"; "a name")]
#[test_case("url: 'https://a.example.com/a', ca_file: ca.pem", "expected an absolute path"; "a relative path")]
#[test_case("url: 'https://a.example.com/a', further_keys: [x]", "no public key: expected `ed25519:`"; "no key")]
#[test_case("interval: 5m", "set `url` too"; "a key of nothing")]
fn mistakes_about_the_bundle(keys: &str, expected: &str) {
    let key = key().public();
    let text = format!("policy: {{bundle: {{public_key: '{key}', {keys}}}}}\n");
    let refused = super::compile(&[("host.yaml", &text)])
        .expect_err("refused")
        .to_string();
    assert!(refused.contains(expected), "{refused}");
}

#[test]
fn a_url_without_a_key_is_refused() {
    let refused = super::compile(&[("a.yaml", "policy: {bundle: {url: 'https://a.example.com/a'}}\n")]);
    assert_snapshot!(refused.expect_err("refused"), @r"
    a.yaml:1:18: policy.bundle.public_key: without a key any bundle of that server would be taken: make one with `mcpmon bundle keygen`
       |
     1 | policy: {bundle: {url: 'https://a.example.com/a'}}
       |                  ^
    ");
}

#[test_case("https://policy.example.com/a?group=1"; "by TLS")]
#[test_case("http://127.0.0.1:8080/a"; "from this host")]
#[test_case("http://localhost/a"; "from this host by name")]
#[test_case("file:///srv/a.bundle"; "from a file")]
fn urls_of_bundles(url: &str) {
    let text = format!(
        "policy: {{bundle: {{url: '{url}', public_key: '{}'}}}}\n",
        key().public()
    );
    let loaded = super::compile(&[("host.yaml", &text)]).unwrap_or_else(|refused| panic!("{refused}"));
    let settings = loaded.settings.bundle.expect("a bundle");
    assert_eq!(
        (settings.url.as_str(), settings.keys),
        (url, vec![key().public()])
    );
}

/// Writes a host's own file at `path`, and follows it.
fn follow(path: &Path) -> Reloader {
    let search = Search {
        explicit: Some(path.to_owned()),
        variable: None,
        local: None,
        user: None,
        system: path.parent().expect("a directory").to_owned(),
    };
    fs::write(path, host("")).expect("written");
    let own = load(&search, Trust::Anyone).expect("valid");
    Reloader::new(search, Trust::Anyone, &own)
}

#[test]
fn a_bundle_is_in_force_until_the_file_names_it_no_more() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("mcpmon.yaml");
    let mut reloader = follow(&path);
    let poll = |reloader: &mut Reloader| reloader.poll(Instant::now(), ReloadOccasion::ByClock);

    let seventh = bundle(7, &[(BundleFile::Policy, POLICY)]);
    let loaded = reloader.compose(&seventh).expect("valid");
    assert_eq!(reloader.bundle(), None);
    reloader.take_bundle(seventh.clone(), &loaded);
    assert_eq!(reloader.bundle(), Some(seventh.id()));
    assert!(poll(&mut reloader).is_none(), "the file is as it was");

    let eighth = bundle(8, &[(BundleFile::Policy, "version: 1\nmode: observe\n")]);
    let loaded = reloader.compose(&eighth).expect("valid");
    assert!(
        loaded.lost.iter().any(|lost| lost.contains("of_the_fleet")),
        "{:?}",
        loaded.lost
    );
    assert_eq!(loaded.switched_off, ["mode `enforce`"]);
    let wrong = bundle(9, &[(BundleFile::Policy, "mode: loud\n")]);
    reloader.compose(&wrong).expect_err("invalid");
    assert_eq!(
        reloader.bundle(),
        Some(seventh.id()),
        "what is only composed is not in force"
    );

    fs::write(&path, host("record: {retention: 3d}\n")).expect("written");
    let changed = poll(&mut reloader).expect("news").expect("valid");
    assert_eq!(changed.text.bundle(), Some(seventh.id()));
    assert_eq!(changed.settings.record.retention.as_secs(), 3 * 86_400);

    // The change removes rules, so it takes effect only when it is confirmed by a second look, and not at all if the
    // file is restored.
    fs::write(&path, "version: 1\n").expect("written");
    assert!(poll(&mut reloader).is_none());
    assert!(!reloader.held().is_empty());
    fs::write(&path, host("record: {retention: 3d}\n")).expect("written");
    assert!(poll(&mut reloader).is_none());
    assert_eq!(reloader.bundle(), Some(seventh.id()));

    let other = BundleKey::from_pem(BundleKey::generate().expect("random").as_bytes()).expect("a key");
    let text = host("").replace(&key().public().to_string(), &other.public().to_string());
    fs::write(&path, text).expect("written");
    let without = reloader
        .poll(Instant::now(), ReloadOccasion::ByPerson)
        .expect("news")
        .expect("valid");
    assert_eq!(
        without.text.bundle(),
        None,
        "the key that signed it is trusted no more"
    );
    assert!(
        without.lost.iter().any(|lost| lost.contains("of_the_fleet")),
        "{:?}",
        without.lost
    );
    assert_eq!(reloader.bundle(), None);
}

/// The host's file drops the key of a bundle; before the second look, another bundle of that key arrives.
#[test]
fn a_bundle_does_not_undo_a_change_that_is_looked_at_twice() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("mcpmon.yaml");
    let mut reloader = follow(&path);
    let seventh = bundle(7, &[(BundleFile::Policy, POLICY)]);
    let loaded = reloader.compose(&seventh).expect("valid");
    reloader.take_bundle(seventh.clone(), &loaded);
    assert!(!reloader.is_being_dropped(&seventh));

    fs::write(&path, "version: 1\n").expect("written");
    assert!(reloader.poll(Instant::now(), ReloadOccasion::ByClock).is_none());
    assert!(reloader.is_being_dropped(&bundle(8, &[(BundleFile::Policy, POLICY)])));

    // If that bundle is taken nevertheless, the change of the file is not lost.
    let eighth = bundle(8, &[(BundleFile::Policy, POLICY)]);
    let loaded = reloader.compose(&eighth).expect("valid");
    reloader.take_bundle(eighth, &loaded);
    let changed = reloader.poll(Instant::now(), ReloadOccasion::ByPerson);
    let changed = changed.expect("the change is read again").expect("valid");
    assert_eq!(changed.text.bundle(), None);
    assert_eq!(reloader.bundle(), None);
}
