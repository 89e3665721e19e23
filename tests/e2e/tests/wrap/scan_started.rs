//! Servers that `mcpmon scan --start` starts: they can read no secrets, reach no network, and leave nothing behind.

use std::{
    fs,
    net::TcpListener,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context as _, Result};
use mcpmon_e2e::{
    program::{self, Run},
    scanned::write,
    wrapped::Home,
};
use serde_json::{Value, json};

/// A server that offers one tool, whose name reports what the server was able to do.
const SERVER: &str = r#"
read -r line
key=refused; cat "$USERS_HOME/.ssh/id_ed25519" > /dev/null 2>&1 && key=read
net=refused; (: < "/dev/tcp/127.0.0.1/$PORT") 2> /dev/null && net=connected
new=refused; (echo x > "$USERS_HOME/new") 2> /dev/null && new=written
sleep 1000.5 > /dev/null 2>&1 &
echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"n","version":"1"}}}'
read -r line; read -r line
echo '{"jsonrpc":"2.0","id":2,"result":{"tools":[{"name":"key_'$key'_net_'$net'_new_'$new'","description":"A."}]}}'
cat > /dev/null
"#;

/// A home with a key and a configured server that looks for it.
struct Scanned {
    home: Home,
    listener: TcpListener,
}

impl Scanned {
    fn new() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let home = Home::new()?;
        write(&home, "home/.ssh/id_ed25519", "key")?;
        write(&home, "home/servers/probe.sh", SERVER)?;
        fs::create_dir_all(home.path("empty"))?;
        let scanned = Self { home, listener };
        let probe = scanned.home.path("home/servers/probe.sh");
        let server = scanned.server(Path::new("bash"), &[&probe.display().to_string()])?;
        scanned.configure(&json!({"probe": server}))?;
        Ok(scanned)
    }

    /// Returns the configuration of a server with the variables that the script reads.
    fn server(&self, command: &Path, arguments: &[&str]) -> Result<Value> {
        let users_home = self.home.path("home");
        Ok(json!({
            "command": command,
            "args": arguments,
            "env": {
                "USERS_HOME": users_home,
                "PORT": self.listener.local_addr()?.port().to_string(),
                // Variables of a configuration cannot grant more access.
                "TMPDIR": users_home,
                "HOME": "/",
            },
        }))
    }

    /// Writes a program into the repository.
    fn program(&self, name: &str, script: &str) -> Result<PathBuf> {
        let name = format!("repo/{name}");
        write(&self.home, &name, &format!("#!/bin/bash\n{script}"))?;
        let path = self.home.path(&name);
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }

    fn configure(&self, servers: &Value) -> Result<()> {
        let text = json!({ "mcpServers": servers }).to_string();
        write(&self.home, "home/.claude.json", &text)
    }

    /// Runs a scan; if a system call is given, as on a kernel without it.
    fn scan(&self, without: Option<&str>, options: &[&str]) -> Result<Run> {
        let mut command = match without {
            None => Command::new(program::path()?),
            Some(number) => {
                let script = crate::isolation::WITHOUT_LANDLOCK.replace("444", number);
                let mut command = Command::new("python3");
                command.args(["-c", &script]).arg(program::path()?);
                command
            }
        };
        let output = command
            .args(["scan", "--json", "--start"])
            .args(options)
            .arg("--db")
            .arg(self.home.path("scan.db"))
            .current_dir(self.home.path("empty"))
            .env("HOME", self.home.path("home"))
            .env("XDG_STATE_HOME", self.home.path("state"))
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("MCPMON_CONFIG")
            .output()?;
        Ok(Run {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout)?,
            stderr: String::from_utf8(output.stderr)?,
        })
    }
}

/// Returns the server that a scan reported.
fn server(run: &Run) -> Result<Value> {
    let objects = run.objects()?;
    let mut servers = objects.into_iter().filter(|object| object["type"] == "server");
    servers.next().with_context(|| format!("no server: {run:?}"))
}

/// Number of the system call unshare(2).
const UNSHARE: &str = "272";
/// Number of the system call that creates Landlock rules.
const LANDLOCK: &str = "444";

#[test]
fn a_started_server_reads_no_key_and_reaches_no_network_and_that_is_told() -> Result<()> {
    let scanned = Scanned::new()?;
    let run = scanned.scan(None, &["--yes"])?;
    let server = server(&run)?;
    assert_eq!(
        server["tools"],
        json!(["key_refused_net_refused_new_refused"]),
        "{run:?}"
    );
    assert_eq!(server["started"], json!({"sandbox": true, "network": false}));
    assert!(
        run.stderr
            .contains("servers start in a sandbox, without a network and without the files of your home:"),
        "{run:?}"
    );
    assert!(
        run.stderr
            .contains("note: servers can still connect to UNIX sockets that have a path"),
        "{run:?}"
    );
    Ok(())
}

#[test]
fn with_the_network_a_started_server_reads_no_key_either() -> Result<()> {
    let scanned = Scanned::new()?;
    let server = server(&scanned.scan(None, &["--yes", "--network"])?)?;
    assert_eq!(server["tools"], json!(["key_refused_net_connected_new_refused"]));
    assert_eq!(server["started"], json!({"sandbox": true, "network": true}));
    Ok(())
}

#[test]
fn what_a_started_server_leaves_behind_is_gone() -> Result<()> {
    let scanned = Scanned::new()?;
    let run = scanned.scan(None, &["--yes"])?;
    assert_eq!(server(&run)?["source"], "listed", "{run:?}");
    let left = fs::read_dir("/proc")?.filter_map(|entry| {
        let directory = entry.ok()?.path();
        let environment = fs::read(directory.join("environ")).ok()?;
        let home = scanned.home.path("home").display().to_string();
        let mine = String::from_utf8_lossy(&environment).contains(&format!("USERS_HOME={home}"));
        mine.then_some(directory)
    });
    assert_eq!(left.collect::<Vec<_>>(), [] as [&Path; 0]);
    Ok(())
}

#[test]
fn without_landlock_a_server_is_started_only_where_that_is_asked_for() -> Result<()> {
    let scanned = Scanned::new()?;
    let run = scanned.scan(Some(LANDLOCK), &["--yes"])?;
    assert_eq!(server(&run)?["source"], "unknown", "{run:?}");
    for said in [
        "WARNING: this kernel has no Landlock",
        "not started, because they would not be in the whole sandbox: probe; `--degraded` starts them too",
    ] {
        assert!(run.stderr.contains(said), "{said}: {run:?}");
    }
    let run = scanned.scan(Some(LANDLOCK), &["--yes", "--degraded"])?;
    let server = server(&run)?;
    assert_eq!(
        server["tools"],
        json!(["key_read_net_refused_new_written"]),
        "{run:?}"
    );
    assert_eq!(server["started"], json!({"sandbox": false, "network": false}));
    Ok(())
}

#[test]
fn without_namespaces_a_server_is_started_only_where_that_is_asked_for() -> Result<()> {
    let scanned = Scanned::new()?;
    let run = scanned.scan(Some(UNSHARE), &["--yes"])?;
    assert_eq!(server(&run)?["source"], "unknown", "{run:?}");
    let said = "WARNING: this host lets no process have namespaces of its own";
    assert!(run.stderr.contains(said), "{run:?}");
    let run = scanned.scan(Some(UNSHARE), &["--yes", "--degraded"])?;
    let server = server(&run)?;
    assert_eq!(
        server["tools"],
        json!(["key_refused_net_refused_new_refused"]),
        "{run:?}"
    );
    assert_eq!(server["started"]["sandbox"], true);
    Ok(())
}

#[test]
fn a_program_with_a_sandbox_of_its_own_is_not_started_without_a_consent_of_its_own() -> Result<()> {
    let scanned = Scanned::new()?;
    scanned.configure(&json!({"time": {"command": "bwrap", "args": ["--bind", "/", "/", "true"]}}))?;
    let run = scanned.scan(None, &["--yes"])?;
    assert_eq!(server(&run)?["source"], "unknown", "{run:?}");
    for said in [
        "NOT IN THE SANDBOX: bwrap makes a sandbox of its own",
        "sandbox: time; `--degraded`",
    ] {
        assert!(run.stderr.contains(said), "{said}: {run:?}");
    }
    Ok(())
}

#[test]
fn a_file_with_the_name_of_such_a_program_starts_in_the_sandbox() -> Result<()> {
    let scanned = Scanned::new()?;
    for name in ["bwrap", "docker"] {
        let program = scanned.program(name, SERVER)?;
        scanned.configure(&json!({"probe": scanned.server(&program, &[])?}))?;
        let run = scanned.scan(None, &["--yes"])?;
        let server = server(&run)?;
        assert_eq!(
            server["tools"],
            json!(["key_refused_net_refused_new_refused"]),
            "{run:?}"
        );
        assert_eq!(server["started"]["sandbox"], true, "{name}");
    }
    Ok(())
}

#[test]
fn a_file_with_the_name_of_a_package_manager_writes_no_cache() -> Result<()> {
    let scanned = Scanned::new()?;
    let cached = [
        "home/.npm/_npx/1/node_modules/a/index.js",
        "home/.cache/uv/archive-v0/1/a.py",
    ];
    for name in cached {
        write(&scanned.home, name, "cached")?;
    }
    for name in ["npx", "uvx"] {
        // The server tries to write through the paths of the caches, and through the links of their mirrors.
        let attack = "for file in \"$USERS_HOME\"/.npm/_npx/1/node_modules/a/index.js \
                      \"$USERS_HOME\"/.cache/uv/archive-v0/1/a.py \"$npm_config_cache\"/_npx/1/node_modules/a/index.js \
                      \"$UV_CACHE_DIR\"/archive-v0/1/a.py; do echo x > \"$file\"; done 2> /dev/null\n\
                      (echo x > \"$npm_config_cache$UV_CACHE_DIR/own\") 2> /dev/null && own=written\n";
        let script = format!("{attack}{}", SERVER.replace("'_new_'$new'", "'_new_'$own'"));
        let program = scanned.program(name, &script)?;
        scanned.configure(&json!({"probe": scanned.server(&program, &[])?}))?;
        let run = scanned.scan(None, &["--yes"])?;
        assert_eq!(
            server(&run)?["tools"],
            json!(["key_refused_net_refused_new_written"]),
            "its mirror is its own: {run:?}"
        );
        for name in cached {
            assert_eq!(fs::read_to_string(scanned.home.path(name))?, "cached", "{name}");
        }
    }
    Ok(())
}

#[test]
fn a_home_is_no_package() -> Result<()> {
    let scanned = Scanned::new()?;
    write(&scanned.home, "home/documents/letter", "letter")?;
    write(&scanned.home, "home/private", "private")?;
    let looks = SERVER.replace(".ssh/id_ed25519", "private");
    write(&scanned.home, "home/probe.sh", &looks)?;
    fs::create_dir_all(scanned.home.path("repo"))?;
    std::os::unix::fs::symlink(scanned.home.path("home"), scanned.home.path("repo/link"))?;
    for directory in ["home/documents/..", "repo/link"] {
        let directory = format!("{}/{directory}", scanned.home.path("").display());
        let arguments = ["-C", &directory, "bash", "probe.sh"];
        scanned.configure(&json!({"probe": scanned.server(Path::new("env"), &arguments)?}))?;
        let run = scanned.scan(None, &["--yes"])?;
        assert_eq!(
            server(&run)?["tools"],
            json!(["key_refused_net_refused_new_refused"]),
            "{directory}: {run:?}"
        );
    }
    Ok(())
}

#[test]
fn a_server_that_does_not_start_says_why() -> Result<()> {
    let scanned = Scanned::new()?;
    for (command, script, said) in [
        ("sh", "echo no key was given >&2; exit 3", "no key was given"),
        ("/nonexistent/server", "", "/nonexistent/server"),
    ] {
        scanned.configure(&json!({"broken": {"command": command, "args": ["-c", script]}}))?;
        let run = scanned.scan(None, &["--yes"])?;
        let server = server(&run)?;
        assert_eq!(server["source"], "failed", "{run:?}");
        assert!(
            server["fault"].as_str().is_some_and(|fault| fault.contains(said)),
            "{server}"
        );
    }
    Ok(())
}
