//! Tables of protected files, by category, and of files that hold secrets. Those of clients are in the table of clients.

use std::{collections::HashMap, sync::LazyLock};

use mcpmon_clients::{CLIENTS, Client, ConfigFile};
use mcpmon_model::{PathPattern, PathStart};

use super::Category;

/// mcpmon itself: whoever writes here decides what is stopped.
const MCPMON: &[&str] = &[
    // policy, store, sockets, hashes
    "~/.config/mcpmon/**",
    "~/.local/state/mcpmon/**",
    "~/.local/share/mcpmon/**",
    "~/.cache/mcpmon/**",
    "/etc/mcpmon/**",
    "/var/lib/mcpmon/**",
    "/run/mcpmon/**",
    "/var/run/mcpmon/**",
    "/var/log/mcpmon/**",
    // with --allow-local-config
    "**/mcpmon.yaml",
    // unit and program
    "**/mcpmon.service",
    "**/mcpmon.service.d/**",
    "/usr/bin/mcpmon",
    "/usr/sbin/mcpmon",
    "/usr/local/bin/mcpmon",
    "/usr/local/sbin/mcpmon",
    "/opt/mcpmon/**",
    "~/.local/bin/mcpmon",
    "~/.cargo/bin/mcpmon",
    "~/bin/mcpmon",
];

/// Hooks of programs that are not in the table of clients.
const CLIENT_HOOKS: &[&str] = &["~/.openclaw/hooks/**"];

/// The files every shell runs when it starts.
const SHELL: &[&str] = &[
    "~/.bashrc",
    "~/.bash_profile",
    "~/.bash_login",
    "~/.bash_logout",
    "~/.bash_aliases",
    "~/.bashrc.d/**",
    "~/.profile",
    "~/.zshrc",
    "~/.zshenv",
    "~/.zprofile",
    "~/.zlogin",
    "~/.zlogout",
    "~/.oh-my-zsh/custom/**",
    "~/.kshrc",
    "~/.cshrc",
    "~/.tcshrc",
    "~/.login",
    "~/.inputrc",
    "~/.config/fish/**",
    "~/.config/nushell/**",
    "~/.pam_environment",
    "~/.xprofile",
    "~/.xinitrc",
    "~/.xsession",
    "~/.xsessionrc",
    "/etc/profile",
    "/etc/profile.d/**",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/zsh/**",
    "/etc/zshrc",
    "/etc/zshenv",
    "/etc/fish/**",
    "/etc/environment",
    "/etc/environment.d/**",
    "~/.config/environment.d/**",
];

/// The sources of packages, and the files their managers run.
const PACKAGES: &[&str] = &[
    // npm, yarn, pnpm, bun
    "**/.npmrc",
    "~/.config/npm/npmrc",
    "~/.config/pnpm/rc",
    "**/.yarnrc",
    "**/.yarnrc.yml",
    "~/.bunfig.toml",
    // pip, uv, conda, poetry
    "~/.pip/pip.conf",
    "~/.config/pip/pip.conf",
    "~/library/application support/pip/pip.conf",
    "/etc/pip.conf",
    "~/.pypirc",
    "~/.pydistutils.cfg",
    "~/.config/uv/uv.toml",
    "/etc/uv/uv.toml",
    "~/.condarc",
    "~/.config/pypoetry/**",
    // Cargo, Go, Ruby, Java, .NET, PHP
    "**/.cargo/config.toml",
    "**/.cargo/config",
    "~/.cargo/credentials.toml",
    "~/.cargo/credentials",
    "~/.config/go/env",
    "~/.gemrc",
    "~/.gem/credentials",
    "~/.bundle/config",
    "~/.m2/settings.xml",
    "~/.m2/settings-security.xml",
    "~/.gradle/gradle.properties",
    "~/.gradle/init.gradle",
    "~/.gradle/init.d/**",
    "~/.nuget/nuget/nuget.config",
    "~/.composer/auth.json",
    "~/.config/composer/**",
    // the system's
    "/etc/apt/**",
    "/etc/yum.conf",
    "/etc/yum.repos.d/**",
    "/etc/dnf/**",
    "/etc/pacman.conf",
    "/etc/apk/**",
    "/etc/npmrc",
];

/// The files git runs: hooks, aliases, pagers, credential helpers.
const GIT: &[&str] = &[
    "~/.gitconfig",
    "~/.config/git/**",
    "/etc/gitconfig",
    "**/.git/config",
    "**/.git/config.worktree",
    "**/.git/hooks/*",
    "**/.git/info/attributes",
    "**/.git/modules/**/config",
    "**/.git/modules/**/hooks/*",
    "~/.git-credentials",
    "~/.git-templates/**",
];

/// The settings of logins, and of the routes of connections.
const SSH: &[&str] = &["~/.ssh/**", "/etc/ssh/**", "**/.ssh/authorized_keys"];

/// Registries, and how their credentials are found.
const DOCKER: &[&str] = &[
    "~/.docker/config.json",
    "~/.docker/daemon.json",
    "~/.docker/contexts/**",
    "~/.docker/cli-plugins/**",
    "~/.docker/mcp/**",
    "/etc/docker/**",
    "~/.config/containers/**",
    "/etc/containers/**",
];

/// Clusters, and the commands that authenticate to them.
const KUBE: &[&str] = &[
    "~/.kube/config",
    "~/.kube/config.d/**",
    "~/.kube/kuberc",
    "/etc/kubernetes/**",
    "/etc/rancher/k3s/**",
];

/// Instructions that several agents read at the start of every session, or one that is not in the table of clients.
const INSTRUCTIONS: &[&str] = &["**/agents.md", "**/.agents/skills/**", "**/.junie/guidelines.md"];

/// The files that run without a person starting them, and the settings of who may become root.
const AUTOSTART: &[&str] = &[
    // cron
    "/etc/crontab",
    "/etc/cron*/**",
    "/etc/anacrontab",
    "/var/spool/cron/**",
    "/var/spool/anacron/**",
    // systemd
    "~/.config/systemd/**",
    "~/.local/share/systemd/**",
    "/etc/systemd/**",
    "/usr/lib/systemd/**",
    "/lib/systemd/**",
    "/usr/local/lib/systemd/**",
    "/run/systemd/**",
    "/etc/init.d/**",
    "/etc/rc.local",
    "/etc/rc*.d/**",
    "/etc/inittab",
    // desktops
    "~/.config/autostart/**",
    "~/.config/autostart-scripts/**",
    "/etc/xdg/autostart/**",
    "~/library/launchagents/**",
    "/library/launchagents/**",
    "/library/launchdaemons/**",
    "~/appdata/roaming/microsoft/windows/start menu/programs/startup/**",
    // the linker, users, rights
    "/etc/ld.so.preload",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d/**",
    "/etc/passwd",
    "/etc/shadow",
    "/etc/group",
    "/etc/gshadow",
    "/etc/sudoers",
    "/etc/sudoers.d/**",
    "/etc/doas.conf",
    "/etc/polkit-1/**",
    "/etc/pam.conf",
    "/etc/pam.d/**",
    "/etc/udev/rules.d/**",
    "/etc/modules-load.d/**",
];

/// Files with keys, tokens or passwords.
const CREDENTIALS: &[&str] = &[
    // keys
    "**/.ssh/id_*",
    "**/.ssh/*_key",
    "**/.ssh/*.pem",
    "**/.ssh/identity",
    "/etc/ssh/ssh_host_*_key",
    "~/.gnupg/private-keys-v1.d/**",
    "~/.gnupg/secring.gpg",
    "~/.config/age/keys.txt",
    "~/.config/sops/age/keys.txt",
    // clouds
    "~/.aws/credentials",
    "~/.aws/sso/cache/**",
    "~/.aws/cli/cache/**",
    "~/.azure/**",
    "~/.config/gcloud/**",
    "~/.config/doctl/config.yaml",
    "~/.config/hcloud/cli.toml",
    "~/.oci/config",
    "~/.oci/*.pem",
    "~/.terraform.d/credentials.tfrc.json",
    "~/.terraformrc",
    "~/.config/tofu/credentials.tfrc.json",
    "~/.vault-token",
    "~/.config/vercel/auth.json",
    "~/.config/railway/config.json",
    "~/.config/stripe/config.toml",
    "~/.config/heroku/**",
    "~/.fly/config.yml",
    "~/.config/argocd/config",
    "~/.config/op/config",
    "~/.op/config",
    "~/.pulumi/credentials.json",
    "~/.cloudflared/*.json",
    "~/.cache/huggingface/token",
    "~/.huggingface/token",
    "~/.boto",
    "~/.s3cfg",
    // clusters, containers
    "~/.kube/config",
    "~/.kube/config.d/**",
    "/etc/kubernetes/admin.conf",
    "/etc/rancher/k3s/k3s.yaml",
    "/var/run/secrets/kubernetes.io/**",
    "/run/secrets/**",
    "~/.docker/config.json",
    "~/.config/containers/auth.json",
    "~/.config/helm/registry/config.json",
    // forges, packages
    "~/.config/gh/hosts.yml",
    "~/.config/hub",
    "~/.config/glab-cli/config.yml",
    "~/.config/github-copilot/**",
    "~/.git-credentials",
    "~/.config/git/credentials",
    "~/.npmrc",
    "~/.config/npm/npmrc",
    "~/.yarnrc.yml",
    "~/.pypirc",
    "~/.cargo/credentials.toml",
    "~/.cargo/credentials",
    "~/.gem/credentials",
    "~/.m2/settings.xml",
    "~/.m2/settings-security.xml",
    "~/.gradle/gradle.properties",
    "~/.composer/auth.json",
    // passwords
    "~/.netrc",
    "~/_netrc",
    "~/.pgpass",
    "~/.my.cnf",
    "~/.mylogin.cnf",
    "~/.config/rclone/rclone.conf",
    "~/.password-store/**",
    "**/*.kdbx",
    "~/.config/bitwarden*/data.json",
    "~/.config/1password/**",
    "/etc/shadow",
    "/etc/gshadow",
    "~/.local/share/keyrings/**",
    "~/.local/share/kwalletd/**",
    "~/library/keychains/**",
    "/library/keychains/**",
    // browsers
    "~/.config/google-chrome/**/login data",
    "~/.config/google-chrome/**/cookies",
    "~/.config/chromium/**/login data",
    "~/.config/chromium/**/cookies",
    "~/.config/bravesoftware/**/login data",
    "~/.config/bravesoftware/**/cookies",
    "~/.config/microsoft-edge/**/login data",
    "~/.config/microsoft-edge/**/cookies",
    "~/library/application support/**/login data",
    "~/library/application support/**/cookies",
    "~/.mozilla/firefox/**/logins.json",
    "~/.mozilla/firefox/**/key4.db",
    "~/.mozilla/firefox/**/cookies.sqlite",
    "~/library/application support/firefox/**/logins.json",
    "~/library/application support/firefox/**/key4.db",
    // tokens of remote servers
    "~/.mcp-auth/**",
    // processes
    "/proc/*/environ",
    // projects
    "**/.env",
    "**/.env.local",
    "**/.env.production",
    "**/.env.prod",
    "**/.env.development",
    "**/.env.staging",
    "**/.env.*.local",
];

/// Names that look protected and are not: samples that nothing runs.
const SAMPLES: &[&str] = &["**/.git/hooks/*.sample"];

/// A protected path.
#[derive(Debug)]
pub(super) struct Row {
    pub(super) category: Category,
    pub(super) pattern: PathPattern,
}

/// Every protected path. Most rows name something that a path must have in it to meet them.
#[derive(Debug)]
pub(super) struct Table {
    rows: Vec<Row>,
    /// Rows by the last of their names: what matches has it.
    by_name: HashMap<String, Vec<usize>>,
    /// Rows by each of their names: a directory above what matches has one of them.
    by_any_name: HashMap<String, Vec<usize>>,
    /// Rows without a name.
    nameless: Vec<usize>,
    samples: Vec<PathPattern>,
}

/// The built-in paths.
pub(super) static TABLE: LazyLock<Table> = LazyLock::new(|| {
    let groups = [
        (Category::McpmonConfig, MCPMON),
        (Category::ClientHooks, CLIENT_HOOKS),
        (Category::ShellConfig, SHELL),
        (Category::PackageConfig, PACKAGES),
        (Category::GitConfig, GIT),
        (Category::SshConfig, SSH),
        (Category::DockerConfig, DOCKER),
        (Category::KubeConfig, KUBE),
        (Category::AgentInstructions, INSTRUCTIONS),
        (Category::Autostart, AUTOSTART),
        (Category::Credential, CREDENTIALS),
    ];
    let built_in = groups.iter().flat_map(|&(category, patterns)| {
        let patterns = patterns.iter().map(|&text| pattern(text));
        patterns.map(move |pattern| Row { category, pattern })
    });
    let mut rows: Vec<Row> = built_in.chain(CLIENTS.iter().flat_map(client_rows)).collect();
    rows.sort_by_key(|row| row.category);
    let mut by_name: HashMap<String, Vec<usize>> = HashMap::new();
    let mut by_any_name: HashMap<String, Vec<usize>> = HashMap::new();
    let mut nameless = Vec::new();
    for (index, row) in rows.iter().enumerate() {
        for name in row.pattern.literals() {
            by_any_name.entry(name.to_owned()).or_default().push(index);
        }
        match row.pattern.literals().last() {
            Some(name) => by_name.entry(name.to_owned()).or_default().push(index),
            None => nameless.push(index),
        }
    }
    Table {
        rows,
        by_name,
        by_any_name,
        nameless,
        samples: SAMPLES.iter().map(|&text| pattern(text)).collect(),
    }
});

impl Table {
    /// The rows that a path with these names, in lower case, can match.
    pub(super) fn rows(&self, names: &[String]) -> Vec<&Row> {
        self.named(&self.by_name, names)
    }

    /// The rows that a path with these names can match, or lie above.
    pub(super) fn rows_below(&self, names: &[String]) -> Vec<&Row> {
        match names {
            [] => self.all(),
            names => self.named(&self.by_any_name, names),
        }
    }

    fn named(&self, index: &HashMap<String, Vec<usize>>, names: &[String]) -> Vec<&Row> {
        let named = names.iter().filter_map(|name| index.get(name));
        let mut found: Vec<usize> = named.flatten().chain(&self.nameless).copied().collect();
        found.sort_unstable();
        found.into_iter().map(|index| &self.rows[index]).collect()
    }

    /// All rows: a path with wildcards can match any of them.
    pub(super) fn all(&self) -> Vec<&Row> {
        self.rows.iter().collect()
    }

    /// Returns whether the path is a sample.
    pub(super) fn is_sample(&self, names: &[String]) -> bool {
        let mut samples = self.samples.iter();
        samples.any(|sample| sample.meets(PathStart::Unknown, names).is_some())
    }
}

/// The files of a client.
fn client_rows(client: &Client) -> impl Iterator<Item = Row> {
    let protected = &client.protected;
    let groups = [
        (Category::ClientMcpConfig, &protected.servers),
        (Category::ClientHooks, &protected.hooks),
        (Category::AgentInstructions, &protected.instructions),
        (Category::Credential, &protected.secrets),
    ];
    let further = groups
        .into_iter()
        .flat_map(|(category, texts)| texts.iter().map(move |text| (category, pattern(text))));
    let files = client.files.iter().flat_map(ConfigFile::patterns);
    let files = files.map(|text| (Category::ClientMcpConfig, pattern(&text)));
    further
        .chain(files)
        .map(|(category, pattern)| Row { category, pattern })
}

fn pattern(text: &str) -> PathPattern {
    PathPattern::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
