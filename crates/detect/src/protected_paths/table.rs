//! Tables of protected files, by category, and of files that hold secrets.

use std::{collections::HashMap, sync::LazyLock};

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

/// Hooks and settings of clients: commands that run beside the model, permissions, addresses of models.
const CLIENT_HOOKS: &[&str] = &[
    // Claude Code: settings hold hooks, permissions and the environment
    "**/.claude/settings.json",
    "**/.claude/settings.local.json",
    "**/.claude/hooks/**",
    "~/.claude/plugins/**",
    "/etc/claude-code/**",
    // Cursor, Windsurf
    "**/.cursor/hooks.json",
    "**/.cursor/hooks/**",
    "/etc/cursor/hooks.json",
    "/etc/cursor/hooks/**",
    "~/.codeium/windsurf/hooks.json",
    "**/.windsurf/hooks.json",
    "/etc/windsurf/**",
    // VS Code: settings can approve every tool
    "**/.vscode/settings.json",
    "~/.config/code/user/settings.json",
    "~/.config/code - insiders/user/settings.json",
    "~/.config/vscodium/user/settings.json",
    "~/.config/cursor/user/settings.json",
    "~/.config/windsurf/user/settings.json",
    "~/library/application support/*/user/settings.json",
    "~/appdata/roaming/*/user/settings.json",
    "~/.vscode-server/data/machine/settings.json",
    // others
    "~/.codex/hooks.json",
    "~/.openclaw/hooks/**",
    "**/.kiro/hooks/**",
    "~/.config/opencode/plugin/**",
    "**/.opencode/plugin/**",
];

/// The configuration of clients' MCP servers.
const CLIENT_SERVERS: &[&str] = &[
    // Claude Code
    "~/.claude.json",
    "~/.claude/.claude.json",
    "**/.mcp.json",
    // Claude Desktop
    "**/claude_desktop_config.json",
    // Cursor, VS Code
    "**/.cursor/mcp.json",
    "**/.vscode/mcp.json",
    "~/.config/code/user/mcp.json",
    "~/.config/code/user/profiles/*/mcp.json",
    "~/.config/code - insiders/user/mcp.json",
    "~/.config/vscodium/user/mcp.json",
    "~/library/application support/*/user/mcp.json",
    "~/appdata/roaming/*/user/mcp.json",
    // Copilot CLI
    "~/.copilot/mcp-config.json",
    "~/.copilot/config.json",
    // Windsurf, Antigravity
    "~/.codeium/windsurf/mcp_config.json",
    "~/.codeium/mcp_config.json",
    "~/.gemini/antigravity/mcp_config.json",
    // Codex CLI
    "**/.codex/config.toml",
    "/etc/codex/**",
    // Gemini CLI
    "**/.gemini/settings.json",
    "/etc/gemini-cli/**",
    // opencode
    "~/.config/opencode/opencode.json*",
    "**/opencode.json",
    "**/opencode.jsonc",
    // Zed
    "~/.config/zed/settings.json",
    "**/.zed/settings.json",
    // Continue
    "~/.continue/config.*",
    "**/.continue/mcpservers/**",
    // Goose
    "~/.config/goose/config.yaml",
    // Cline, Roo
    "**/cline_mcp_settings.json",
    "**/settings/mcp_settings.json",
    "**/.roo/mcp.json",
    // Kiro, Amazon Q, LM Studio, Kimi, Factory
    "**/.kiro/settings/mcp.json",
    "**/.amazonq/mcp.json",
    "~/.aws/amazonq/mcp.json",
    "~/.lmstudio/mcp.json",
    "~/.kimi/mcp.json",
    "**/.factory/mcp.json",
    // Amp, Crush, Mistral Vibe
    "~/.config/amp/settings.json",
    "**/.amp/settings.json",
    "~/.config/crush/crush.json",
    "**/.crush.json",
    "**/.vibe/config.toml",
];

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

/// The instructions that agents read at the start of every session.
const INSTRUCTIONS: &[&str] = &[
    "**/claude.md",
    "**/claude.local.md",
    "**/.claude/agents/**",
    "**/.claude/commands/**",
    "**/.claude/skills/**",
    "**/.claude/rules/**",
    "**/.claude/output-styles/**",
    "**/agents.md",
    "**/agents.override.md",
    "**/.agents/skills/**",
    "~/.codex/prompts/**",
    "**/.codex/skills/**",
    "**/gemini.md",
    "**/.gemini/commands/**",
    "**/.gemini/skills/**",
    "**/.cursorrules",
    "**/.cursor/rules/**",
    "**/.cursor/commands/**",
    "**/.windsurfrules",
    "**/.windsurf/rules/**",
    "**/.windsurf/workflows/**",
    "~/.codeium/windsurf/memories/**",
    "**/.github/copilot-instructions.md",
    "**/.github/instructions/**",
    "**/.github/prompts/**",
    "**/.github/agents/**",
    "**/.clinerules",
    "**/.clinerules/**",
    "**/.roorules",
    "**/.roo/rules*/**",
    "**/.kiro/steering/**",
    "**/.continue/rules/**",
    "**/.goosehints",
    "**/.amazonq/rules/**",
    "**/.junie/guidelines.md",
    "~/.config/opencode/agent/**",
    "**/.opencode/agent/**",
    "**/.opencode/command/**",
];

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
    // clients: tokens of servers and of the account
    "~/.claude/.credentials.json",
    "~/.claude.json",
    "~/.codex/auth.json",
    "~/.gemini/oauth_creds.json",
    "~/.gemini/google_accounts.json",
    "~/.local/share/opencode/auth.json",
    "~/.local/share/opencode/mcp-auth.json",
    "~/.mcp-auth/**",
    "~/.config/goose/secrets.yaml",
    "~/.continue/.env",
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
        (Category::ClientMcpConfig, CLIENT_SERVERS),
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
    let of = |(category, patterns): (Category, &[&str])| {
        let row = |&text: &&str| Row {
            category,
            pattern: pattern(text),
        };
        patterns.iter().map(row).collect::<Vec<_>>()
    };
    let rows: Vec<Row> = groups.into_iter().flat_map(of).collect();
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

fn pattern(text: &str) -> PathPattern {
    PathPattern::new(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}
