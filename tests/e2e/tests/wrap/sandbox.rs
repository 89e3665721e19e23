//! Servers in a sandbox: they read and write only what is granted, and no secrets.

use std::{fs, path::Path, process::Command};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    program,
    wrapped::{Home, Wrapped},
};
use test_case::test_case;

const NOTICE: &str = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;

/// A server that runs its argument in a shell, and sends the output in a message.
const SERVER: &str = r#"
read -r line
said=$(eval "$1" 2>/dev/null | tr '\n' ' ')
printf '{"jsonrpc":"2.0","method":"notifications/%s"}\n' "$said"
cat > /dev/null
"#;

/// Returns a home of a server's user, with a key, a project and a configuration.
fn furnished() -> Result<Home> {
    let home = Home::new()?;
    for directory in [".ssh", "project", "data", ".aws"] {
        fs::create_dir(home.path(directory))?;
    }
    fs::write(home.path(".ssh/id_ed25519"), "key")?;
    fs::write(home.path(".aws/credentials"), "credentials")?;
    fs::write(home.path(".bashrc"), "export TOKEN=secret")?;
    fs::write(home.path(".gitconfig"), "git")?;
    fs::write(home.path("project/file"), "project")?;
    fs::write(home.path("data/file"), "data")?;
    Ok(home)
}

/// Returns the command `mcpmon wrap OPTIONS` around a server that runs this script, in the user's project.
fn wrap(home: &Home, options: &[&str], script: &str) -> Result<Command> {
    let options = [&["--server", "files"], options].concat();
    let mut wrap = home.wrap(&options, &["bash", "-c", SERVER, "bash", script])?;
    wrap.env("HOME", home.path("")).env_remove("XDG_CONFIG_HOME");
    wrap.env("MCPMON_CONFIG", home.path("config/mcpmon/mcpmon.yaml"));
    wrap.current_dir(home.path("project"));
    Ok(wrap)
}

/// Returns the server's output, and the wrapper's standard error.
fn said(command: &mut Command) -> Result<(String, String)> {
    let mut wrapped = Wrapped::start(command)?;
    wrapped.send(NOTICE)?;
    let line = wrapped.line()?;
    let (code, _, errors) = wrapped.finish()?;
    assert_eq!(code, 0, "{errors}");
    let said = line.split_once("notifications/").context("a message")?.1;
    Ok((said.trim_end_matches("\"}").trim_end().to_owned(), errors))
}

const READS: &str = "cat ~/.ssh/id_ed25519 ~/.aws/credentials ~/.bashrc; cat ~/.gitconfig; echo; cat ~/project/file; echo; \
                     cat ~/data/file; echo; ls ~; head -c 4 /etc/passwd; echo; cat /etc/shadow";

#[test_case(&["--sandbox"] => "git project data root"; "home-readonly")]
#[test_case(&["--sandbox", "home-readonly"] => "git project data root"; "home-readonly by its name")]
#[test_case(&["--sandbox", "strict"] => "root"; "strict")]
fn secrets_are_not_read(options: &[&str]) -> String {
    let run = || {
        let home = furnished()?;
        home.configure("version: 1\n")?;
        let (said, errors) = said(&mut wrap(&home, options, READS)?)?;
        assert!(!errors.contains("sandbox"), "{errors}");
        anyhow::Ok(said.split_whitespace().collect::<Vec<_>>().join(" "))
    };
    run().expect("a server")
}

/// This shows that a server can read the secrets if it is not prevented.
#[test]
fn without_a_sandbox_they_are() -> Result<()> {
    let home = furnished()?;
    home.configure("version: 1\n")?;
    let (said, _) = said(&mut wrap(
        &home,
        &[],
        "cat ~/.ssh/id_ed25519; echo; cat ~/.bashrc",
    )?)?;
    assert_eq!(said, "key export TOKEN=secret");
    Ok(())
}

const WRITES: &str = "cd ~; for file in data/new project/new new .ssh/new .bashrc /usr/new; do \
                      if echo x > $file; then echo $file; fi; done; echo x > $TMPDIR/t && echo temporary";

#[test]
fn a_declaration_grants_what_is_written() -> Result<()> {
    let home = furnished()?;
    home.configure(
        "version: 1\nmcp: {servers: [{id: files, command: bash, sandbox: {default: strict, read: ['${workspace}'], write: [~/data]}}]}\n",
    )?;
    let (said, errors) = said(&mut wrap(&home, &[], WRITES)?)?;
    assert_eq!(said, "data/new temporary", "{errors}");
    assert_eq!(fs::read_to_string(home.path(".bashrc"))?, "export TOKEN=secret");
    let (said, _) = self::said(&mut wrap(
        &home,
        &[],
        "cat ~/project/file; cat ~/.gitconfig; ls -d $TMPDIR",
    )?)?;
    assert!(said.starts_with("project"), "{said}");
    let temporary = said.trim_start_matches("project");
    assert!(
        temporary.contains("mcpmon-server-") && !Path::new(temporary).exists(),
        "{said}"
    );
    Ok(())
}

#[test_case("home-readonly")]
#[test_case("strict")]
fn no_terminal_is_opened(mode: &str) {
    let run = || {
        let home = furnished()?;
        home.configure("version: 1\n")?;
        let script = "for file in /dev/ptmx /dev/pts/ptmx /dev/tty; do (: < $file) && echo $file; done; ls /dev/pts; echo x > /dev/null && \
                      echo end";
        anyhow::Ok(said(&mut wrap(&home, &["--sandbox", mode], script)?)?.0)
    };
    assert_eq!(run().expect("a server"), "end");
}

#[test]
fn a_command_line_loosens_no_declaration() -> Result<()> {
    let home = furnished()?;
    home.configure("version: 1\nmcp: {servers: [{id: files, command: bash, sandbox: {default: strict}}]}\n")?;
    let (said, _) = said(&mut wrap(
        &home,
        &["--sandbox", "home-readonly"],
        "cat ~/project/file; echo end",
    )?)?;
    assert_eq!(said, "end");
    Ok(())
}

#[test]
fn a_grant_without_effect_is_told_and_recorded() -> Result<()> {
    let home = furnished()?;
    home.configure(
        "version: 1\nmcp: {servers: [{id: files, command: bash, sandbox: {default: home-readonly, read: [~/absent]}}]}\n",
    )?;
    let (_, errors) = said(&mut wrap(&home, &[], "true")?)?;
    assert!(
        errors.contains("`~/absent` is not granted: there is no such file"),
        "{errors}"
    );
    assert_eq!(components(&home)?, ["server sandbox"]);
    Ok(())
}

#[test]
fn a_running_server_is_listed_with_its_sandbox() -> Result<()> {
    let home = furnished()?;
    home.configure("version: 1\nmcp: {servers: [{id: files, command: bash, sandbox: {default: strict, read: [~/absent]}}]}\n")?;
    let mut wrapped = Wrapped::start(&mut wrap(&home, &[], "true")?)?;
    wrapped.send(NOTICE)?;
    wrapped.line()?;
    let store = home.path("store.db").display().to_string();
    let listed = || -> Result<Option<serde_json::Value>> {
        let servers = program::run(["servers", "--json", "--db", &store])?.objects()?;
        Ok(servers.into_iter().find(|server| server["sandbox"].is_object()))
    };
    let server = mcpmon_e2e::wait::until("the sandbox of the server", listed)?;
    let sandbox = &server["sandbox"];
    assert_eq!(sandbox["mode"], "strict", "{server}");
    assert_eq!(sandbox["enforced"], true, "{server}");
    let gap = "`~/absent` is not granted: there is no such file";
    assert_eq!(sandbox["gaps"][0], gap, "{server}");
    let shown = program::run(["servers", "--db", &store])?;
    assert!(shown.stdout.contains("strict *"), "{shown:?}");
    assert!(shown.stderr.contains(gap), "{shown:?}");
    wrapped.finish()?;
    let servers = program::run(["servers", "--json", "--db", &store])?.objects()?;
    assert!(
        servers.iter().all(|server| server.get("sandbox").is_none()),
        "{servers:?}"
    );
    Ok(())
}

#[test]
fn doctor_judges_declared_sandboxes() -> Result<()> {
    let home = furnished()?;
    home.configure(
        "version: 1\nmcp: {servers: [{id: files, command: bash, sandbox: {default: strict}}, {id: box, command: bwrap, sandbox: {network: off}}]}\n",
    )?;
    let config = home.path("config/mcpmon/mcpmon.yaml").display().to_string();
    let socket = home.path("no-daemon").display().to_string();
    let run = program::run(["doctor", "--json", "--config", &config, "--socket", &socket])?;
    let findings = run.objects()?;
    let detail = |subject: &str| {
        let finding = findings.iter().find(|finding| finding["subject"] == subject);
        finding
            .and_then(|finding| finding["detail"].as_str())
            .unwrap_or_default()
    };
    assert!(detail("sandbox of files").starts_with("strict"), "{run:?}");
    assert!(
        detail("sandbox of box").contains("makes a sandbox of its own"),
        "{run:?}"
    );
    assert!(
        detail("server sandbox").starts_with("Landlock version "),
        "{run:?}"
    );
    Ok(())
}

/// Returns the components whose enforcement is recorded as degraded.
fn components(home: &Home) -> Result<Vec<String>> {
    let store = home.path("store.db").display().to_string();
    let events = [
        "events",
        "--json",
        "--type",
        "mcp_enforcement_degraded",
        "--db",
        &store,
    ];
    let events = program::run(events)?.objects()?;
    Ok(events
        .iter()
        .filter_map(|event| event["component"].as_str().map(str::to_owned))
        .collect())
}

/// Runs the command without Landlock's first system call.
fn without_landlock(wrap: &Command) -> Command {
    let mut command = Command::new("python3");
    command.args(["-c", crate::isolation::WITHOUT_LANDLOCK]);
    command.arg(wrap.get_program()).args(wrap.get_args());
    for (name, value) in wrap.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command.current_dir(wrap.get_current_dir().unwrap_or_else(|| Path::new("/")));
    command
}

#[test]
fn without_landlock_a_server_runs_as_it_did_and_that_is_recorded() -> Result<()> {
    let home = furnished()?;
    home.configure("version: 1\n")?;
    let (said, errors) = said(&mut without_landlock(&wrap(
        &home,
        &["--sandbox"],
        "cat ~/.ssh/id_ed25519",
    )?))?;
    assert_eq!(said, "key");
    assert!(
        errors.contains("the sandbox of the server is not as it was asked for"),
        "{errors}"
    );
    assert!(components(&home)?.contains(&"server sandbox".to_owned()));
    Ok(())
}

#[test]
fn without_landlock_a_server_that_must_have_a_sandbox_does_not_run() -> Result<()> {
    let home = furnished()?;
    let arguments = serde_json::json!(["-c", SERVER, "bash", "echo ran"]);
    home.configure(&format!(
        "version: 1\nmcp: {{fail_closed: true, servers: [{{id: files, command: bash, args: {arguments}}}]}}\n"
    ))?;
    let mut wrapped = Wrapped::start(&mut without_landlock(&wrap(&home, &["--sandbox"], "echo ran")?))?;
    wrapped.send(r#"{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}"#)?;
    let line = wrapped.line()?;
    assert!(line.contains("its sandbox cannot be made"), "{line}");
    let (code, output, _) = wrapped.finish()?;
    assert_eq!(code, 1);
    assert!(!output.contains("ran"), "{output}");
    Ok(())
}

/// A script that connects to a port of this host.
const CONNECTS: &str = "if : < /dev/tcp/127.0.0.1/$PORT; then echo connected; else echo refused; fi";

#[test_case("network: off" => "refused"; "off")]
#[test_case("default: home-readonly" => "connected"; "as egress has it")]
fn the_network_is(sandbox: &str) -> String {
    let run = || {
        let home = furnished()?;
        let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
        home.configure(&format!(
            "version: 1\nmcp: {{servers: [{{id: files, command: bash, sandbox: {{{sandbox}}}}}]}}\n"
        ))?;
        let mut wrap = wrap(&home, &[], CONNECTS)?;
        wrap.env("PORT", listener.local_addr()?.port().to_string());
        anyhow::Ok(said(&mut wrap)?.0)
    };
    run().expect("a server")
}

#[test]
fn without_a_daemon_a_list_of_destinations_leaves_their_ports() -> Result<()> {
    let home = furnished()?;
    let listeners = [
        std::net::TcpListener::bind("127.0.0.1:0")?,
        std::net::TcpListener::bind("127.0.0.1:0")?,
    ];
    let ports = [
        listeners[0].local_addr()?.port(),
        listeners[1].local_addr()?.port(),
    ];
    home.configure(&format!(
        "version: 1\nmcp: {{servers: [{{id: files, command: bash, egress: {{default: deny, allow: ['127.0.0.1:{}']}}}}]}}\n",
        ports[0]
    ))?;
    let said = ports.map(|port| {
        let mut wrap = wrap(&home, &[], CONNECTS)?;
        wrap.env("PORT", port.to_string());
        anyhow::Ok(said(&mut wrap)?.0)
    });
    let [allowed, other] = said;
    assert_eq!((allowed?.as_str(), other?.as_str()), ("connected", "refused"));
    Ok(())
}

#[test]
fn a_sandbox_inside_of_another_one_holds_too() -> Result<()> {
    let home = furnished()?;
    home.configure("version: 1\n")?;
    let wrap = wrap(&home, &["--sandbox"], READS)?;
    let mut outer = Command::new("bwrap");
    outer.args([
        "--bind",
        "/",
        "/",
        "--dev",
        "/dev",
        "--proc",
        "/proc",
        "--unshare-pid",
        "--",
    ]);
    outer.arg(wrap.get_program()).args(wrap.get_args());
    for (name, value) in wrap.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer.current_dir(home.path("project"));
    let (said, _) = said(&mut outer)?;
    assert_eq!(
        said.split_whitespace().collect::<Vec<_>>(),
        ["git", "project", "data", "root"]
    );
    Ok(())
}
