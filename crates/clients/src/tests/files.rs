//! Files on disk: what is written, kept, refused and restored.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink},
    path::{Path, PathBuf},
};

use tempfile::TempDir;

use crate::{
    CLIENTS, FileError, FileReport, FileTrouble, LedgerError, Options, PlanOutcome, Roots, SetupDirection,
    SetupEffect, file::Original, ledger::Ledger, run,
};

const PROGRAM: &str = "/usr/bin/mcpmon";
const CURSOR: &str = "{\"mcpServers\": {\"a\": {\"command\": \"x\"}}}\n";

struct Home(TempDir);

impl Home {
    fn new() -> Self {
        Self(tempfile::tempdir().expect("directory"))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn options(&self, direction: SetupDirection, effect: SetupEffect) -> Options {
        Options {
            roots: Roots {
                home: self.path("home"),
                variables: BTreeMap::new(),
                host: self.path("host"),
            },
            state: self.path("state"),
            clients: CLIENTS.iter().collect(),
            projects: Vec::new(),
            user: fs::metadata(self.0.path()).unwrap().uid(),
            direction,
            effect,
            confirmed: None,
        }
    }

    fn wrap(&self) -> Vec<FileReport> {
        run(&self.options(SetupDirection::Wrap(PROGRAM.into()), SetupEffect::Write)).expect("remembered")
    }

    fn unwrap(&self) -> Vec<FileReport> {
        run(&self.options(SetupDirection::Unwrap, SetupEffect::Write)).expect("remembered")
    }

    fn states(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("state")).unwrap();
        entries
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect()
    }
}

#[test]
fn files_are_wrapped_once_and_come_back() {
    let home = Home::new();
    home.write("home/.cursor/mcp.json", CURSOR);
    home.write("home/.claude.json", "{\"projects\": {\"/p\": {\"mcpServers\": {\"b\": {\"command\": \"y\", \"args\": []}}}}, \"history\": [\"\\ud800\"]}");
    let before = home.read("home/.claude.json");
    let mode = fs::Permissions::from_mode(0o640);
    fs::set_permissions(home.path("home/.cursor/mcp.json"), mode).unwrap();
    let reports = home.wrap();
    assert_eq!(reports.len(), 2);
    assert!(
        reports
            .iter()
            .all(|report| report.trouble.is_none() && report.backup.is_some())
    );
    assert_eq!(
        home.read("home/.cursor/mcp.json"),
        "{\"mcpServers\": {\"a\": {\"command\": \"/usr/bin/mcpmon\", \"args\": [\"wrap\", \"--server\", \"a\", \"--\", \"x\"]}}}\n"
    );
    assert_eq!(
        fs::metadata(home.path("home/.cursor/mcp.json")).unwrap().mode() & 0o7777,
        0o640
    );
    for report in &reports {
        let backup = report.backup.as_ref().unwrap();
        assert_eq!(fs::metadata(backup).unwrap().mode() & 0o777, 0o600);
    }
    let again = home.wrap();
    assert!(
        again
            .iter()
            .flat_map(|report| &report.servers)
            .all(|server| server.outcome == PlanOutcome::Wrapped)
    );
    let back = home.unwrap();
    assert!(
        back.iter()
            .all(|report| report.restored && report.backup.is_none())
    );
    assert_eq!(home.read("home/.cursor/mcp.json"), CURSOR);
    assert_eq!(home.read("home/.claude.json"), before);
    let mut left = home.states();
    left.sort();
    assert_eq!(left, ["setup.json", "setup.lock"], "no copy is left");
}

#[test]
fn a_preview_changes_and_makes_nothing() {
    let home = Home::new();
    home.write("home/.cursor/mcp.json", CURSOR);
    let options = home.options(SetupDirection::Wrap(PROGRAM.into()), SetupEffect::Preview);
    let reports = run(&options).expect("nothing to remember");
    assert_eq!(reports[0].servers[0].outcome, PlanOutcome::Wrap);
    assert_eq!(home.read("home/.cursor/mcp.json"), CURSOR);
    assert!(!home.path("state").exists());
}

#[test]
fn a_second_server_is_wrapped_later_and_both_come_back() {
    let home = Home::new();
    home.write("home/.cursor/mcp.json", CURSOR);
    home.wrap();
    let more = |text: &str| {
        text.replace(
            "\"mcpServers\": {",
            "\"mcpServers\": {\"new\": {\"command\": \"n\"}, ",
        )
    };
    home.write(
        "home/.cursor/mcp.json",
        &more(&home.read("home/.cursor/mcp.json")),
    );
    let outcomes: Vec<_> = home.wrap()[0]
        .servers
        .iter()
        .map(|server| server.outcome)
        .collect();
    assert_eq!(outcomes, [PlanOutcome::Wrap, PlanOutcome::Wrapped]);
    let report = home.unwrap().remove(0);
    assert!(report.restored);
    assert_eq!(home.read("home/.cursor/mcp.json"), more(CURSOR));
}

#[test]
fn a_file_that_cannot_be_read_strictly_is_left_and_others_are_not() {
    let home = Home::new();
    let broken = "{\n  \"mcpServers\": {\n    \"a\": {\"command\": \"x\"} // c\n  }\n}";
    home.write("home/.claude.json", broken);
    home.write("home/.cursor/mcp.json", CURSOR);
    let reports = home.wrap();
    assert_eq!(
        reports[0].trouble.as_ref().unwrap().to_string(),
        "3:27: unexpected `/`"
    );
    assert_eq!(home.read("home/.claude.json"), broken);
    assert_eq!(reports[1].servers[0].outcome, PlanOutcome::Wrap);
    assert_ne!(home.read("home/.cursor/mcp.json"), CURSOR);
}

#[test]
fn a_link_stays_a_link() {
    let home = Home::new();
    home.write("dotfiles/cursor.json", CURSOR);
    fs::create_dir_all(home.path("home/.cursor")).unwrap();
    symlink(
        home.path("dotfiles/cursor.json"),
        home.path("home/.cursor/mcp.json"),
    )
    .unwrap();
    home.wrap();
    assert!(
        fs::symlink_metadata(home.path("home/.cursor/mcp.json"))
            .unwrap()
            .is_symlink()
    );
    assert!(home.read("dotfiles/cursor.json").contains(PROGRAM));
    home.unwrap();
    assert_eq!(home.read("dotfiles/cursor.json"), CURSOR);
    assert_eq!(
        fs::read_dir(home.path("dotfiles")).unwrap().count(),
        1,
        "nothing is left beside it"
    );
}

#[test]
fn only_what_was_confirmed_is_changed() {
    let home = Home::new();
    home.write("home/.cursor/mcp.json", CURSOR);
    home.write("home/.kiro/settings/mcp.json", CURSOR);
    let mut options = home.options(SetupDirection::Wrap(PROGRAM.into()), SetupEffect::Preview);
    let digests = run(&options).expect("nothing to remember").into_iter();
    let digests = digests.map(|report| (report.path, report.digest.expect("read")));
    options.confirmed = Some(digests.collect());
    options.effect = SetupEffect::Write;
    let other = CURSOR.replace("\"x\"", "\"other\"");
    home.write("home/.kiro/settings/mcp.json", &other);
    home.write("home/.lmstudio/mcp.json", CURSOR);
    let reports = run(&options).expect("remembered");
    let is_left = |report: &FileReport| matches!(report.trouble, Some(FileTrouble::File(FileError::Changed)));
    assert_eq!(
        reports.iter().map(is_left).collect::<Vec<_>>(),
        [false, true, true]
    );
    assert!(home.read("home/.cursor/mcp.json").contains(PROGRAM));
    assert_eq!(home.read("home/.kiro/settings/mcp.json"), other);
    assert_eq!(home.read("home/.lmstudio/mcp.json"), CURSOR);
}

#[test]
fn what_a_client_wrote_meanwhile_is_not_lost() {
    let home = Home::new();
    home.write("mcp.json", CURSOR);
    let user = fs::metadata(home.0.path()).unwrap().uid();
    let original = Original::read(&home.path("mcp.json"), user).unwrap();
    home.write("mcp.json", "{}");
    let replaced = original.replace(b"new", user);
    assert!(matches!(replaced, Err(FileError::Changed)), "{replaced:?}");
    assert_eq!(home.read("mcp.json"), "{}");
    assert_eq!(
        fs::read_dir(home.0.path()).unwrap().count(),
        1,
        "nothing is left beside it"
    );
}

#[test]
fn a_file_of_somebody_else_is_left() {
    let home = Home::new();
    home.write("home/.cursor/mcp.json", CURSOR);
    let mut options = home.options(SetupDirection::Wrap(PROGRAM.into()), SetupEffect::Write);
    options.user += 1;
    let report = run(&options).expect("remembered").remove(0);
    assert!(
        matches!(report.trouble, Some(FileTrouble::File(FileError::Foreign { .. }))),
        "{:?}",
        report.trouble
    );
    assert_eq!(home.read("home/.cursor/mcp.json"), CURSOR);
}

#[test]
fn root_is_not_led_by_others() {
    let home = Home::new();
    home.write("home/.cursor/mcp.json", CURSOR);
    home.write("etc/target.json", CURSOR);
    symlink(home.path("etc/target.json"), home.path("link.json")).unwrap();
    let read = |path: &str| Original::read(&home.path(path), 0).map(drop);
    // Only root can create files of itself and of others; for another user these are files of others already.
    if nix::unistd::geteuid().is_root() {
        read("home/.cursor/mcp.json").expect("root's own file");
        read("link.json").expect("root's own link");
        fs::set_permissions(home.path("etc"), fs::Permissions::from_mode(0o777)).unwrap();
        let open = read("etc/target.json");
        assert!(matches!(open, Err(FileError::Open { .. })), "{open:?}");
        fs::set_permissions(home.path("etc"), fs::Permissions::from_mode(0o755)).unwrap();
        for path in ["home", "link.json"] {
            std::os::unix::fs::lchown(home.path(path), Some(1000), Some(1000)).unwrap();
        }
    }
    for path in ["home/.cursor/mcp.json", "link.json"] {
        let led = read(path);
        assert!(matches!(led, Err(FileError::Led { .. })), "{path}: {led:?}");
    }
}

#[test]
fn files_of_a_project_are_remembered() {
    let home = Home::new();
    home.write("project/.mcp.json", CURSOR);
    assert!(home.wrap().is_empty(), "a project is looked at where it is named");
    let mut options = home.options(SetupDirection::Wrap(PROGRAM.into()), SetupEffect::Write);
    options.projects = vec![home.path("project")];
    assert_eq!(run(&options).expect("remembered").len(), 1);
    let back = home.unwrap();
    assert!(back[0].restored, "without naming it again");
    assert_eq!(home.read("project/.mcp.json"), CURSOR);
}

#[test]
fn one_setup_at_a_time() {
    let home = Home::new();
    let held = Ledger::lock(&home.path("state")).expect("locked");
    let options = home.options(SetupDirection::Unwrap, SetupEffect::Write);
    assert!(matches!(run(&options), Err(LedgerError::Busy)));
    drop(held);
    run(&options).expect("free again");
}

#[test]
fn a_memory_that_cannot_be_read_stops_everything() {
    let home = Home::new();
    home.write("home/.cursor/mcp.json", CURSOR);
    for (text, expected) in [
        ("{", "cannot understand"),
        ("{\"version\": 9, \"files\": {}}", "later mcpmon"),
    ] {
        home.write("state/setup.json", text);
        let options = home.options(SetupDirection::Wrap(PROGRAM.into()), SetupEffect::Write);
        let error = run(&options).expect_err("refused").to_string();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(home.read("home/.cursor/mcp.json"), CURSOR);
    assert!(Path::new(&home.path("state/setup.json")).exists());
}

#[test]
fn a_read_only_file_is_left_and_says_so() {
    let home = Home::new();
    home.write("home/.codex/config.toml", "[mcp_servers.a]\ncommand = \"x\"\n");
    let path = home.path("home/.codex/config.toml");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o444)).unwrap();
    let before = home.read("home/.codex/config.toml");
    let report = home.wrap().remove(0);
    assert!(
        matches!(
            report.trouble,
            Some(FileTrouble::File(FileError::ReadOnly { .. }))
        ),
        "{:?}",
        report.trouble
    );
    assert_eq!(home.read("home/.codex/config.toml"), before);
    assert_eq!(home.states(), ["setup.lock"], "nothing is remembered");
}

#[test]
fn files_of_every_format_come_back_with_their_links_and_modes() {
    let home = Home::new();
    let files = [
        (
            "home/.config/goose/config.yaml",
            "extensions:\r\n  ä:\r\n    cmd: x # c\r\n    args:\r\n    - y\r\n",
        ),
        (
            "home/.codex/config.toml",
            "# c\n[mcp_servers.a]\n\tcommand = 'x'\n",
        ),
        (
            "home/.config/zed/settings.json",
            "// c\n{\"context_servers\": {\"a\": {\"command\": \"x\",},},}",
        ),
    ];
    for (file, text) in files {
        home.write(&format!("dotfiles/{file}"), text);
        fs::create_dir_all(home.path(file).parent().unwrap()).unwrap();
        symlink(home.path(&format!("dotfiles/{file}")), home.path(file)).unwrap();
    }
    let reports = home.wrap();
    assert_eq!(reports.len(), files.len());
    for (file, text) in files {
        assert!(home.read(file).contains(PROGRAM), "{}", home.read(file));
        assert_ne!(home.read(file), text);
    }
    assert!(home.unwrap().iter().all(|report| report.restored));
    for (file, text) in files {
        assert_eq!(home.read(file), text);
        assert!(fs::symlink_metadata(home.path(file)).unwrap().is_symlink());
    }
}

#[test]
fn a_run_that_was_interrupted_is_taken_up() {
    let home = Home::new();
    home.write("home/.cursor/mcp.json", CURSOR);
    home.wrap();
    // The change is recorded, but the file was not replaced yet; the temporary file is still there.
    home.write("home/.cursor/mcp.json", CURSOR);
    let beside = format!("home/.cursor/mcp.json.mcpmon-{}", std::process::id());
    home.write(&beside, "half a fi");
    let report = home.wrap().remove(0);
    assert!(report.trouble.is_none(), "{:?}", report.trouble);
    assert_eq!(report.servers[0].outcome, PlanOutcome::Wrap);
    assert!(!home.path(&beside).exists());
    assert!(home.unwrap()[0].restored);
    assert_eq!(home.read("home/.cursor/mcp.json"), CURSOR);
    // The change is recorded and not made, and then undone.
    home.wrap();
    home.write("home/.cursor/mcp.json", CURSOR);
    assert!(home.unwrap()[0].restored);
    assert_eq!(home.read("home/.cursor/mcp.json"), CURSOR);
}

#[test]
fn a_client_that_writes_its_file_anew_keeps_the_wrapper() {
    let home = Home::new();
    home.write("home/.codex/config.toml", "[mcp_servers.a]\ncommand = 'x' # c\n");
    home.wrap();
    home.write(
        "home/.codex/config.toml",
        "[mcp_servers]\n[mcp_servers.a]\ncommand = '/usr/bin/mcpmon'\nargs = ['wrap', '--server', 'a', '--', 'x']\n",
    );
    let again = home.wrap().remove(0);
    assert_eq!(again.servers[0].outcome, PlanOutcome::Wrapped);
    let back = home.unwrap().remove(0);
    assert!(!back.restored && back.backup.is_some(), "the copy stays");
    let text = home.read("home/.codex/config.toml");
    assert!(text.contains("command = 'x'") && !text.contains("wrap"), "{text}");
}
