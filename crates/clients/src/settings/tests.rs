//! Round trips of settings: what is added is there, nothing else changes, and the removal restores the same bytes.

use std::{collections::BTreeMap, fs, os::unix::fs::PermissionsExt as _, path::Path};

use proptest::prelude::*;
use test_case::test_case;

use super::{
    SettingKind, SettingOutcome, SettingReport, SettingWish, run::shown_digests, run_settings,
    thrown_switches,
};
use crate::{CLIENTS, FileError, FileTrouble, Options, Roots, SetupEffect, setup::SetupDirection};

struct Home(tempfile::TempDir);

impl Home {
    fn new(files: &[(&str, &str)]) -> Self {
        let home = Self(tempfile::tempdir().expect("directory"));
        for directory in [".claude", ".codex", ".cursor", ".gemini", ".config/opencode"] {
            fs::create_dir_all(home.0.path().join(directory)).expect("made");
        }
        for (path, text) in files {
            fs::write(home.0.path().join(path), text).expect("written");
        }
        home
    }

    fn options(&self, client: &str, effect: SetupEffect) -> Options {
        Options {
            roots: Roots {
                home: self.0.path().to_owned(),
                variables: BTreeMap::new(),
                host: self.0.path().join("host"),
            },
            state: self.0.path().join("state"),
            clients: CLIENTS.iter().filter(|known| known.id == client).collect(),
            projects: Vec::new(),
            user: nix::unistd::geteuid().as_raw(),
            direction: SetupDirection::Unwrap,
            effect,
            confirmed: None,
        }
    }

    fn run(&self, client: &str, wish: &SettingWish) -> Vec<SettingReport> {
        run_settings(&self.options(client, SetupEffect::Write), wish).expect("a ledger")
    }

    fn text(&self, path: &str) -> Option<String> {
        fs::read_to_string(self.0.path().join(path)).ok()
    }
}

fn hooks() -> SettingWish {
    SettingWish::Add {
        hooks: Some("/usr/bin/mcpmon".to_owned()),
        models: None,
    }
}

fn models() -> SettingWish {
    SettingWish::Add {
        hooks: None,
        models: Some("http://127.0.0.1:8484".to_owned()),
    }
}

fn both() -> SettingWish {
    SettingWish::Add {
        hooks: Some("/usr/bin/mcpmon".to_owned()),
        models: Some("http://127.0.0.1:8484".to_owned()),
    }
}

fn all() -> SettingWish {
    SettingWish::Remove(vec![SettingKind::Hook, SettingKind::Model])
}

fn outcomes(reports: &[SettingReport]) -> Vec<SettingOutcome> {
    assert!(
        reports.iter().all(|report| report.trouble.is_none()),
        "{reports:?}"
    );
    reports
        .iter()
        .flat_map(|report| &report.settings)
        .map(|setting| setting.outcome.clone())
        .collect()
}

const CLAUDE: &str =
    r#"{"matcher": "*", "hooks": [{"type": "command", "command": "/usr/bin/mcpmon hook claude-code"}]}"#;

#[test_case("{\"disableAllHooks\": true}", None, &["disableAllHooks"]; "by the user")]
#[test_case("{\"disableAllHooks\": false}", None, &[]; "not by the user")]
#[test_case("{}", Some("{\"allowManagedHooksOnly\": true, \"disableAllHooks\": true}"), &["disableAllHooks", "allowManagedHooksOnly"]; "by the host")]
#[test_case("{\"disableAllHooks\": ", Some("[true]"), &[]; "in what is no settings")]
fn switches_that_turn_hooks_off_are_found(own: &str, managed: Option<&str>, expected: &[&str]) {
    let home = Home::new(&[(".claude/settings.json", own)]);
    if let Some(managed) = managed {
        let directory = home.0.path().join("host/etc/claude-code");
        fs::create_dir_all(&directory).expect("made");
        fs::write(directory.join("managed-settings.json"), managed).expect("written");
    }
    let options = home.options("claude-code", SetupEffect::Preview);
    let thrown = thrown_switches(options.clients[0], &options.roots);
    let members: Vec<_> = thrown.iter().map(|switch| switch.member).collect();
    assert_eq!(members, expected);
}

#[test_case("{}", r#"{"hooks": {"PreToolUse": [ITEM]}}"#; "an empty object")]
#[test_case("", "{\"hooks\": {\"PreToolUse\": [ITEM]}}\n"; "an empty file")]
#[test_case("{\n  \"model\": \"opus\"\n}\n", "{\n  \"hooks\": {\"PreToolUse\": [ITEM]},\n  \"model\": \"opus\"\n}\n"; "members in lines")]
#[test_case("{\r\n\t\"model\": \"é\"\r\n}", "{\r\n\t\"hooks\": {\"PreToolUse\": [ITEM]},\r\n\t\"model\": \"é\"\r\n}"; "tabs and carriage returns")]
#[test_case(r#"{"a":1}"#, r#"{"hooks": {"PreToolUse": [ITEM]}, "a":1}"#; "one line")]
#[test_case(r#"{"hooks": {}}"#, r#"{"hooks": {"PreToolUse": [ITEM]}}"#; "no hooks yet")]
#[test_case(r#"{"hooks": {"Stop": []}}"#, r#"{"hooks": {"PreToolUse": [ITEM], "Stop": []}}"#; "hooks for another event")]
#[test_case(r#"{"hooks": {"PreToolUse": [ ]}}"#, r#"{"hooks": {"PreToolUse": [ITEM ]}}"#; "an empty list")]
#[test_case("{\"hooks\": {\"PreToolUse\": [\n      {\"matcher\": \"Bash\", \"hooks\": []}\n    ]}}", "{\"hooks\": {\"PreToolUse\": [\n      ITEM,\n      {\"matcher\": \"Bash\", \"hooks\": []}\n    ]}}"; "another hook")]
fn a_hook_is_put_in_and_taken_out(before: &str, after: &str) {
    let home = Home::new(&[(".claude/settings.json", before)]);
    let reports = home.run("claude-code", &hooks());
    assert_eq!(outcomes(&reports), [SettingOutcome::Add]);
    let after = after.replace("ITEM", CLAUDE);
    assert_eq!(home.text(".claude/settings.json"), Some(after.clone()));
    // Idempotent: a second run changes nothing.
    assert_eq!(
        outcomes(&home.run("claude-code", &hooks())),
        [SettingOutcome::Present]
    );
    assert_eq!(home.text(".claude/settings.json"), Some(after));
    let reports = home.run("claude-code", &all());
    assert_eq!(outcomes(&reports), [SettingOutcome::Remove]);
    assert!(reports[0].is_restored, "{reports:?}");
    assert_eq!(home.text(".claude/settings.json").as_deref(), Some(before));
    assert!(
        home.run("claude-code", &all()).is_empty(),
        "nothing is known any more"
    );
}

#[test_case("cursor", ".cursor/hooks.json", "// mine\n{\"version\": 1, /* c */ \"hooks\": {\"preToolUse\": [{\"command\": \"x\"},],},}\n"; "comments and trailing commas")]
#[test_case("cursor", ".cursor/hooks.json", "\u{feff}{ // nothing\n}"; "a byte order mark and a comment")]
#[test_case("gemini-cli", ".gemini/settings.json", "{\n  // c\n  \"hooks\": {\"disabled\": [\"x\"]}\n}"; "a member that is no event")]
#[test_case("codex", ".codex/hooks.json", "{\"hooks\":{\"PreToolUse\":[{\"matcher\":\"Bash\",\"hooks\":[]}]}}"; "codex")]
#[test_case("claude-code", ".claude/settings.json", "{\"env\": {\"A\": \"1\"}, \"hooks\": {\"PreToolUse\": []}}"; "variables")]
#[test_case("codex", ".codex/config.toml", "\u{feff}# mine\r\nmodel = \"x\"\r\n\r\n[mcp_servers.a]\r\ncommand = \"a\"\r\n"; "toml")]
#[test_case("gemini-cli", ".gemini/.env", "# keys\nexport GEMINI_API_KEY='x'"; "variables without a last newline")]
#[test_case("opencode", ".config/opencode/opencode.jsonc", "{\n  \"provider\": {\n    \"openai\": {\"options\": {\"apiKey\": \"k\"}}, // c\n  },\n}"; "providers")]
fn every_shape_comes_back(client: &str, path: &str, before: &str) {
    let home = Home::new(&[(path, before)]);
    let added = home.run(client, &both());
    assert!(
        outcomes(&added)
            .iter()
            .all(|outcome| *outcome == SettingOutcome::Add),
        "{added:?}"
    );
    let after = home.text(path).unwrap();
    assert_ne!(after, before);
    assert!(
        outcomes(&home.run(client, &both()))
            .iter()
            .all(|outcome| *outcome == SettingOutcome::Present)
    );
    assert_eq!(home.text(path), Some(after));
    let reports = home.run(client, &all());
    assert!(reports.iter().all(|report| report.is_restored), "{reports:?}");
    assert_eq!(home.text(path).as_deref(), Some(before));
    for made in [
        ".claude/settings.json",
        ".codex/hooks.json",
        ".codex/config.toml",
        ".gemini/settings.json",
        ".gemini/.env",
        ".config/opencode/opencode.json",
    ] {
        assert!(made == path || home.text(made).is_none(), "{made} is still there");
    }
}

#[test_case("A=abc", "OTHER=2\n", "A=abc\nOTHER=2\n"; "behind ours")]
#[test_case("A=abc\n", "OTHER=2\n", "A=abc\nOTHER=2\n"; "behind a whole line")]
fn what_was_appended_since_stays_a_line_of_its_own(before: &str, appended: &str, expected: &str) {
    let home = Home::new(&[(".gemini/.env", before)]);
    home.run("gemini-cli", &both());
    let after = home.text(".gemini/.env").unwrap() + appended;
    fs::write(home.0.path().join(".gemini/.env"), after).unwrap();
    home.run("gemini-cli", &all());
    assert_eq!(home.text(".gemini/.env").as_deref(), Some(expected));
}

#[test]
fn a_changed_line_goes_as_a_whole() {
    let home = Home::new(&[(".gemini/.env", "A=1\n")]);
    home.run("gemini-cli", &both());
    let after = home
        .text(".gemini/.env")
        .unwrap()
        .replace("GOOGLE", "export GOOGLE")
        + "B=2\n";
    fs::write(home.0.path().join(".gemini/.env"), after).unwrap();
    home.run("gemini-cli", &all());
    assert_eq!(home.text(".gemini/.env").as_deref(), Some("A=1\nB=2\n"));
}

#[test]
fn a_file_that_was_written_anew_is_kept_before_it_is_changed() {
    let home = Home::new(&[]);
    assert!(home.run("claude-code", &hooks())[0].is_made);
    let path = home.0.path().join(".claude/settings.json");
    fs::write(&path, "{\"env\": {\"S\": \"mine\"}}").unwrap();
    let reports = home.run("claude-code", &hooks());
    let backup = reports[0].backup.clone().expect("a copy from before");
    assert_eq!(
        fs::read_to_string(backup).unwrap(),
        "{\"env\": {\"S\": \"mine\"}}"
    );
    let reports = home.run("claude-code", &all());
    assert!(reports[0].is_restored && !reports[0].is_made, "{reports:?}");
    assert!(path.exists());
}

#[test]
fn a_missing_file_is_made_for_its_owner_and_removed_again() {
    let home = Home::new(&[]);
    let reports = home.run("cursor", &hooks());
    assert!(reports[0].is_made && reports[0].backup.is_none(), "{reports:?}");
    let path = home.0.path().join(".cursor/hooks.json");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let text: serde_json::Value = serde_json::from_str(&home.text(".cursor/hooks.json").unwrap()).unwrap();
    assert_eq!(text["version"], 1);
    for event in ["beforeShellExecution", "beforeReadFile", "preToolUse"] {
        assert_eq!(
            text["hooks"][event],
            serde_json::json!([{"command": "/usr/bin/mcpmon hook cursor"}])
        );
    }
    let reports = home.run("cursor", &all());
    assert!(reports[0].is_made && reports[0].is_restored, "{reports:?}");
    assert!(!path.exists());
}

#[test]
fn a_client_that_is_not_there_gets_no_file() {
    let home = Home::new(&[]);
    fs::remove_dir(home.0.path().join(".cursor")).unwrap();
    assert!(home.run("cursor", &hooks()).is_empty());
    assert!(!home.0.path().join(".cursor").exists());
}

#[test]
fn a_preview_changes_nothing() {
    let home = Home::new(&[(".claude/settings.json", "{}")]);
    let options = home.options("claude-code", SetupEffect::Preview);
    let reports = run_settings(&options, &both()).unwrap();
    assert_eq!(outcomes(&reports), [SettingOutcome::Add, SettingOutcome::Add]);
    assert_eq!(home.text(".claude/settings.json").as_deref(), Some("{}"));
    assert!(!home.0.path().join("state").exists());
}

#[test]
fn a_file_that_was_written_to_since_the_question_is_left() {
    let home = Home::new(&[(".claude/settings.json", "{}")]);
    let mut options = home.options("claude-code", SetupEffect::Preview);
    options.confirmed = Some(shown_digests(&run_settings(&options, &hooks()).unwrap()));
    options.effect = SetupEffect::Write;
    fs::write(home.0.path().join(".claude/settings.json"), r#"{"a": 1}"#).unwrap();
    let reports = run_settings(&options, &hooks()).unwrap();
    assert!(
        matches!(reports[0].trouble, Some(FileTrouble::File(FileError::Changed))),
        "{reports:?}"
    );
    assert_eq!(home.text(".claude/settings.json").as_deref(), Some(r#"{"a": 1}"#));
}

#[test]
fn kinds_come_and_go_by_themselves() {
    let before = "{\n  \"env\": {\"A\": \"1\"}\n}";
    let home = Home::new(&[(".claude/settings.json", before)]);
    home.run("claude-code", &hooks());
    let with_hooks = home.text(".claude/settings.json");
    home.run("claude-code", &models());
    assert!(
        home.text(".claude/settings.json")
            .unwrap()
            .contains(r#""ANTHROPIC_BASE_URL": "http://127.0.0.1:8484/anthropic""#)
    );
    home.run("claude-code", &SettingWish::Remove(vec![SettingKind::Model]));
    assert_eq!(home.text(".claude/settings.json"), with_hooks);
    home.run("claude-code", &models());
    home.run("claude-code", &SettingWish::Remove(vec![SettingKind::Hook]));
    let left = home.text(".claude/settings.json").unwrap();
    assert!(
        left.contains("ANTHROPIC_BASE_URL") && !left.contains("hook claude-code"),
        "{left}"
    );
    home.run("claude-code", &all());
    assert_eq!(home.text(".claude/settings.json").as_deref(), Some(before));
}

#[test]
fn a_file_that_the_client_wrote_anew_loses_only_what_was_put_in() {
    let home = Home::new(&[(".claude/settings.json", r#"{"model": "opus"}"#)]);
    home.run("claude-code", &both());
    let value: serde_json::Value =
        serde_json::from_str(&home.text(".claude/settings.json").unwrap()).unwrap();
    let mut value = value;
    value["later"] = true.into();
    fs::write(
        home.0.path().join(".claude/settings.json"),
        serde_json::to_string_pretty(&value).unwrap(),
    )
    .unwrap();
    let reports = home.run("claude-code", &all());
    assert_eq!(
        outcomes(&reports),
        [SettingOutcome::Remove, SettingOutcome::Remove]
    );
    assert!(!reports[0].is_restored);
    let left: serde_json::Value = serde_json::from_str(&home.text(".claude/settings.json").unwrap()).unwrap();
    assert_eq!(left, serde_json::json!({"model": "opus", "later": true}));
}

#[test]
fn a_program_that_moved_is_named_anew_and_the_way_back_stays() {
    let before = r#"{"model": "opus"}"#;
    for client in ["claude-code", "gemini-cli"] {
        let (settings, env) = match client {
            "claude-code" => (".claude/settings.json", ".claude/settings.json"),
            _ => (".gemini/settings.json", ".gemini/.env"),
        };
        let home = Home::new(&[(settings, before)]);
        home.run(client, &both());
        let moved = SettingWish::Add {
            hooks: Some("/opt/mcpmon".to_owned()),
            models: Some("http://127.0.0.1:9".to_owned()),
        };
        assert_eq!(
            outcomes(&home.run(client, &moved)),
            [SettingOutcome::Update, SettingOutcome::Update]
        );
        assert!(home.text(settings).unwrap().contains("/opt/mcpmon hook"));
        assert!(home.text(env).unwrap().contains("http://127.0.0.1:9/"));
        assert!(home.run(client, &all()).iter().all(|report| report.is_restored));
        assert_eq!(home.text(settings).as_deref(), Some(before));
    }
}

#[test]
fn what_others_put_there_is_left() {
    let by_hand = r#"{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "/opt/mcpmon hook claude-code"}]}]}, "env": {"ANTHROPIC_BASE_URL": "https://gateway.example"}}"#;
    let home = Home::new(&[(".claude/settings.json", by_hand)]);
    let reports = home.run("claude-code", &both());
    assert!(
        matches!(
            outcomes(&reports)[..],
            [SettingOutcome::Left(_), SettingOutcome::Left(_)]
        ),
        "{reports:?}"
    );
    assert!(home.run("claude-code", &all()).is_empty());
    assert_eq!(home.text(".claude/settings.json").as_deref(), Some(by_hand));
}

#[test]
fn codex_with_a_provider_of_its_own_is_left() {
    let text = "model_provider = \"corp\"\n[model_providers.corp]\nbase_url = \"https://corp.example/v1\"\n";
    let home = Home::new(&[(".codex/config.toml", text)]);
    let reports = home.run("codex", &models());
    let [SettingOutcome::Left(reason)] = &outcomes(&reports)[..] else {
        panic!("{reports:?}")
    };
    assert!(reason.contains("mcpmon run"), "{reason}");
    assert_eq!(home.text(".codex/config.toml").as_deref(), Some(text));
}

#[test_case("[]", "the file is no object"; "a list")]
#[test_case(r#"{"hooks": []}"#, "`hooks` is no object"; "hooks that are a list")]
#[test_case(r#"{"hooks": {"PreToolUse": {}}}"#, "`hooks.PreToolUse` is no list"; "an event that is an object")]
#[test_case(r#"{"hooks": {}, "hooks": {}}"#, "`hooks` is set twice in it"; "two of a name")]
#[test_case("{", "1:2"; "no JSON")]
#[test_case("// c\n{}", "1:1"; "a comment where none may be")]
fn what_is_unclear_is_left_with_the_reason(text: &str, reason: &str) {
    let home = Home::new(&[(".claude/settings.json", text)]);
    let reports = home.run("claude-code", &hooks());
    let trouble = reports[0].trouble.as_ref().expect("trouble").to_string();
    assert!(trouble.contains(reason), "{trouble}");
    assert_eq!(home.text(".claude/settings.json").as_deref(), Some(text));
}

#[test]
fn read_only_files_and_links_are_respected() {
    let home = Home::new(&[("real.json", "{}")]);
    let link = home.0.path().join(".claude/settings.json");
    std::os::unix::fs::symlink(home.0.path().join("real.json"), &link).unwrap();
    home.run("claude-code", &hooks());
    assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
    assert!(home.text("real.json").unwrap().contains("hook claude-code"));
    home.run("claude-code", &all());
    assert_eq!(home.text("real.json").as_deref(), Some("{}"));
    fs::set_permissions(home.0.path().join("real.json"), fs::Permissions::from_mode(0o444)).unwrap();
    let reports = home.run("claude-code", &hooks());
    assert!(
        matches!(
            reports[0].trouble,
            Some(FileTrouble::File(FileError::ReadOnly { .. }))
        ),
        "{reports:?}"
    );
}

fn document() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::json!(1)),
        "[a-z\\\\\"/*]{0,6}".prop_map(Into::into),
        Just(serde_json::json!([]))
    ];
    leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Into::into),
            proptest::collection::btree_map("[a-c]|env", inner, 0..4)
                .prop_map(|members| serde_json::json!(members)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_document_comes_back(document in document(), is_pretty in any::<bool>()) {
        let text = match is_pretty {
            true => serde_json::to_string_pretty(&document).unwrap(),
            false => document.to_string(),
        };
        let home = Home::new(&[(".claude/settings.json", &text)]);
        let reports = home.run("claude-code", &both());
        let is_done = reports.iter().all(|report| report.trouble.is_none());
        if is_done {
            let after: serde_json::Value = serde_json::from_str(&home.text(".claude/settings.json").unwrap()).unwrap();
            prop_assert_eq!(&after["env"]["ANTHROPIC_BASE_URL"], "http://127.0.0.1:8484/anthropic");
            for (name, value) in document.as_object().into_iter().flatten().filter(|(name, _)| *name != "env") {
                prop_assert_eq!(&after[name], value);
            }
        }
        home.run("claude-code", &all());
        prop_assert_eq!(home.text(".claude/settings.json").unwrap(), text);
        prop_assert!(!Path::new(&home.0.path().join("state/setup-")).exists());
    }
}
