//! Files that are found, trusted and followed.

use std::{
    fs,
    os::unix::fs::{PermissionsExt as _, symlink},
    path::Path,
    time::{Duration, Instant},
};

use insta::assert_snapshot;
use mcpmon_model::{EventKind, Severity, Timestamp};
use mcpmon_policy::Mode;
use tempfile::TempDir;
use test_case::test_case;

use super::super::{
    ConfigError, LoadedConfiguration, ReloadOccasion, Reloader, Search, Source, SourceError, Sources, Trust,
    load,
};

const OBSERVE: &str = "mode: observe\n";
const ENFORCE: &str = "mode: enforce\n";

fn directory() -> TempDir {
    TempDir::new().expect("a temporary directory")
}

fn write(path: impl AsRef<Path>, text: &str) {
    let path = path.as_ref();
    fs::create_dir_all(path.parent().expect("a directory")).expect("created");
    fs::write(path, text).expect("written");
    set_mode(path, 0o644);
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("own file");
}

/// Returns every place below `root`.
fn search(root: &Path) -> Search {
    Search {
        explicit: None,
        variable: None,
        local: Some(root.join("local.yaml")),
        user: Some(root.join("user.yaml")),
        system: root.join("etc"),
    }
}

fn find(search: &Search) -> LoadedConfiguration {
    load(search, Trust::Anyone).unwrap_or_else(|error| panic!("{error}"))
}

fn this_user() -> Trust {
    Trust::Owner(nix::unistd::geteuid().as_raw())
}

#[test]
fn the_first_place_with_a_file_holds_alone() {
    let root = directory();
    let root = root.path();
    let mut search = search(root);
    let found = |search: &Search| {
        let names: Vec<_> = find(search).sources.iter().map(ToString::to_string).collect();
        names.join(" ").replace(&format!("{}/", root.display()), "")
    };
    assert_eq!(found(&search), "embedded default");
    write(root.join("etc/conf.d/20-b.yaml"), OBSERVE);
    assert_eq!(found(&search), "embedded default etc/conf.d/20-b.yaml");
    write(root.join("etc/mcpmon.yaml"), ENFORCE);
    write(root.join("etc/conf.d/10-a.yaml"), ENFORCE);
    write(root.join("etc/conf.d/.hidden.yaml"), "no: key\n");
    write(root.join("etc/conf.d/readme.txt"), "no: key\n");
    assert_eq!(
        found(&search),
        "etc/mcpmon.yaml etc/conf.d/10-a.yaml etc/conf.d/20-b.yaml"
    );
    assert_eq!(
        find(&search).policy.mode,
        Mode::Observe,
        "by name, the last holds"
    );
    write(root.join("user.yaml"), ENFORCE);
    assert_eq!(found(&search), "user.yaml");
    write(root.join("local.yaml"), ENFORCE);
    assert_eq!(found(&search), "local.yaml");
    search.variable = Some(root.join("variable.yaml"));
    write(root.join("variable.yaml"), ENFORCE);
    assert_eq!(found(&search), "variable.yaml");
    search.explicit = Some(root.join("explicit.yaml"));
    write(root.join("explicit.yaml"), ENFORCE);
    assert_eq!(found(&search), "explicit.yaml");
}

#[test]
fn what_is_named_must_be_there() {
    let root = directory();
    let missing = Search {
        explicit: Some(root.path().join("missing.yaml")),
        ..search(root.path())
    };
    assert_snapshot!(
        message(load(&missing, Trust::Anyone), root.path()),
        @"cannot read DIR/missing.yaml"
    );
}

#[test]
fn files_that_are_none() {
    let root = directory();
    let root = root.path();
    let read = |name: &str| message(Sources::read(&root.join(name), Trust::Anyone), root);
    fs::write(root.join("large.yaml"), "#".repeat((1 << 20) + 1)).expect("written");
    assert_snapshot!(read("large.yaml"), @"DIR/large.yaml is too large: a configuration file has at most 1 MiB");
    fs::write(root.join("full.yaml"), "#".repeat(1 << 20)).expect("written");
    Sources::read(&root.join("full.yaml"), Trust::Anyone).expect("1 MiB is read");
    fs::write(root.join("bytes.yaml"), b"mode: enforce\n\xff\n").expect("written");
    assert_snapshot!(read("bytes.yaml"), @"DIR/bytes.yaml is no UTF-8 text: line 2 contains other bytes");
    assert_snapshot!(read("."), @"DIR/. is no regular file: give the path of a YAML file");
    nix::unistd::mkfifo(&root.join("pipe"), nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
    assert_snapshot!(read("pipe"), @"DIR/pipe is no regular file: give the path of a YAML file");
}

fn message<T, E: std::fmt::Display>(result: Result<T, E>, root: &Path) -> String {
    let text = result.err().expect("an error").to_string();
    text.replace(&root.display().to_string(), "DIR")
}

#[test_case(0o644, 0o755 => ""; "nobody else writes")]
#[test_case(0o664, 0o755 => "policy is not taken from where others can change it: DIR/etc/policy.yaml can be written by its group; run `chmod g-w DIR/etc/policy.yaml`")]
#[test_case(0o646, 0o755 => "policy is not taken from where others can change it: DIR/etc/policy.yaml can be written by everybody; run `chmod o-w DIR/etc/policy.yaml`")]
#[test_case(0o644, 0o777 => "policy is not taken from where others can change it: DIR/etc can be written by its group and everybody; run `chmod go-w DIR/etc`"; "the directory counts")]
#[test_case(0o644, 0o1777 => ""; "sticky directories are safe")]
fn who_may_write(file_mode: u32, directory_mode: u32) -> String {
    let root = directory();
    let path = root.path().join("etc/policy.yaml");
    write(&path, ENFORCE);
    set_mode(&path, file_mode);
    set_mode(&root.path().join("etc"), directory_mode);
    match Sources::read(&path, this_user()) {
        Ok(_) => String::new(),
        Err(error) => message(Err::<(), _>(error), root.path()),
    }
}

#[test]
fn anyone_may_write_where_nothing_depends_on_it() {
    let root = directory();
    let path = root.path().join("policy.yaml");
    write(&path, ENFORCE);
    set_mode(&path, 0o666);
    Sources::read(&path, Trust::Anyone).expect("it is read");
    assert_eq!(Trust::for_user(1000), Trust::Anyone);
    assert_eq!(Trust::for_user(0), Trust::Owner(0));
}

#[test]
fn links_are_judged_by_where_they_lead() {
    let root = directory();
    let root = root.path();
    write(root.join("open/policy.yaml"), ENFORCE);
    set_mode(&root.join("open"), 0o777);
    fs::create_dir(root.join("etc")).expect("created");
    symlink("../open/policy.yaml", root.join("etc/mcpmon.yaml")).expect("linked");
    let read = Sources::read(&root.join("etc/mcpmon.yaml"), this_user());
    assert!(matches!(read, Err(SourceError::Distrusted(_))), "{read:?}");
}

/// A directory as the kubelet writes it: `mcpmon.yaml` → `..data/mcpmon.yaml`, `..data` → the current version.
fn poll(reloader: &mut Reloader) -> Option<Result<LoadedConfiguration, ConfigError>> {
    reloader.poll(Instant::now(), ReloadOccasion::ByClock)
}

/// Returns the number of lost rules that is reported when a policy with rules changes.
fn lost(news: Option<Result<LoadedConfiguration, ConfigError>>) -> Option<usize> {
    news.map(|loaded| loaded.unwrap_or_else(|error| panic!("{error}")).lost.len())
}

const RULES: &str = "version: 1\nmcp:\n  blocked_tools: [echo]\n  denied_servers: [{id: evil}]\n  server_policy: denylist\nnetwork:\n  deny:\n    - {name: net, cidrs: [192.0.2.0/24]}\n    - {name: other, cidrs: [198.51.100.0/24]}\n";

#[test]
fn a_policy_that_was_emptied_or_cut_takes_effect_when_it_has_stayed_so_and_is_told_by_what_it_lacks() {
    let root = directory();
    let path = root.path().join("etc/mcpmon.yaml");
    for (cut, lacks) in [("", 6), (&RULES[..RULES.rfind("    - ").expect("a line")], 2)] {
        write(&path, RULES);
        let search = search(root.path());
        let mut reloader = Reloader::new(search.clone(), Trust::Anyone, &find(&search));
        let start = Instant::now();
        let later = |seconds| start + Duration::from_secs(seconds);
        let mut poll = |at, asked| lost(reloader.poll(at, asked));
        write(&path, cut);
        assert_eq!(
            poll(later(0), ReloadOccasion::ByClock),
            None,
            "it may be written just now"
        );
        assert_eq!(poll(later(2), ReloadOccasion::ByClock), None);
        write(&path, RULES);
        assert_eq!(
            poll(later(4), ReloadOccasion::ByClock),
            None,
            "it was: nothing changed"
        );
        write(&path, cut);
        assert_eq!(poll(later(6), ReloadOccasion::ByClock), None);
        assert_eq!(poll(later(8), ReloadOccasion::ByClock), None);
        assert_eq!(poll(later(11), ReloadOccasion::ByClock), Some(lacks));
        assert_eq!(poll(later(20), ReloadOccasion::ByClock), None, "once");
        write(&path, RULES);
        assert_eq!(
            poll(later(21), ReloadOccasion::ByClock),
            Some(0),
            "more takes effect at once"
        );
        write(&path, cut);
        assert_eq!(poll(later(22), ReloadOccasion::ByClock), None);
        assert_eq!(
            poll(later(22), ReloadOccasion::ByPerson),
            Some(lacks),
            "a person's word"
        );
    }
    let event = {
        let mut loaded = find(&search(root.path()));
        assert_eq!(loaded.event(Timestamp(0)).severity, Severity::Info);
        loaded.lost = vec!["network.deny `other`".to_owned()];
        loaded.event(Timestamp(0))
    };
    assert_eq!(event.severity, Severity::High);
    assert!(event.reason.is_some_and(|reason| reason.contains("restore them")));
}

fn config_map(directory: &Path, version: &str, text: &str) {
    write(directory.join(version).join("mcpmon.yaml"), text);
    symlink(version, directory.join("..new")).expect("linked");
    fs::rename(directory.join("..new"), directory.join("..data")).expect("swapped");
    if !directory.join("mcpmon.yaml").is_symlink() {
        symlink("..data/mcpmon.yaml", directory.join("mcpmon.yaml")).expect("linked");
    }
}

#[test]
fn a_config_map_is_believed_and_followed() {
    let root = directory();
    let etc = root.path().join("etc");
    fs::create_dir(&etc).expect("created");
    config_map(&etc, "..2026_01", ENFORCE);
    let search = search(root.path());
    let loaded = load(&search, this_user()).unwrap_or_else(|error| panic!("{error}"));
    let mut reloader = Reloader::new(search, this_user(), &loaded);
    assert!(poll(&mut reloader).is_none());
    config_map(&etc, "..2026_02", OBSERVE);
    let reloaded = poll(&mut reloader)
        .expect("a change")
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(reloaded.policy.mode, Mode::Observe);
    let event = reloaded.event(Timestamp(0));
    assert_eq!(event.severity, Severity::High, "nothing is enforced any more");
    assert!(
        matches!(&event.kind, EventKind::PolicyLoaded { lost, .. } if *lost == ["mode `enforce`"]),
        "{event:?}"
    );
    assert!(poll(&mut reloader).is_none());
}

#[test]
fn a_change_is_told_once() {
    let root = directory();
    let path = root.path().join("etc/mcpmon.yaml");
    write(&path, ENFORCE);
    let search = search(root.path());
    let mut reloader = Reloader::new(search.clone(), Trust::Anyone, &find(&search));
    write(&path, ENFORCE);
    assert!(poll(&mut reloader).is_none(), "written again as it was");
    write(&path, "mode: loud\n");
    assert!(matches!(poll(&mut reloader), Some(Err(ConfigError::Invalid(_)))));
    assert!(poll(&mut reloader).is_none(), "a mistake is told once");
    fs::remove_file(&path).expect("removed");
    assert!(
        matches!(poll(&mut reloader), Some(Err(ConfigError::Vanished))),
        "a policy that is gone is not replaced by a weaker one"
    );
    assert!(poll(&mut reloader).is_none());
    write(&path, OBSERVE);
    let back = poll(&mut reloader)
        .expect("a change")
        .unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(back.sources, [Source::File(path)]);
}

#[test]
fn the_digest_of_one_file_is_that_of_its_content() {
    let one = Sources::of_texts(&[("a", ENFORCE)]);
    assert_eq!(one.digest(), mcpmon_model::Digest::of(ENFORCE.as_bytes()));
    let cut = Sources::of_texts(&[("a", "ab"), ("b", "c")]);
    let other_cut = Sources::of_texts(&[("a", "a"), ("b", "bc")]);
    assert_ne!(cut.digest(), other_cut.digest());
}
