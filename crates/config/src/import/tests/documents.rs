//! Every YAML block of the documents that requested the import, and its result.

use insta::assert_snapshot;
use mcpmon_policy::{OnChange, ServerPolicy};

use super::{
    super::ImportedTool::{self, Agentsh, Agentshield},
    imported, told,
};

const PATTERNS: &str = r###"mcp:
  inspection:
    # Default patterns for known MCP server packages
    server_patterns:
      # Official MCP servers
      - "@modelcontextprotocol/*"
      # Community convention
      - "mcp-server-*"
      - "*-mcp-server"
      # Python MCP servers
      - "mcp_server_*"
      - "uvx mcp-server-*"

    # User-defined patterns for custom/internal MCP servers
    custom_servers:
      - "my-company-mcp-*"
      - "/path/to/internal/mcp-server"
"###;

const INSPECTION: &str = r###"mcp:
  inspection:
    enabled: true

    # MCP server detection patterns (shell shim uses these)
    server_patterns:
      # Default patterns (built-in)
      - "@modelcontextprotocol/*"
      - "mcp-server-*"
      - "*-mcp-server"
      - "mcp_server_*"
      - "uvx mcp-server-*"

    # Additional user-defined patterns
    custom_servers:
      - "my-internal-mcp-*"

    # Tool definition tracking
    registry:
      # Pin tool definitions on first use (for rug pull detection)
      pin_on_first_use: true
      # Alert when pinned tool definition changes
      alert_on_change: true
      # Persist registry across sessions
      persistent: true
      path: ~/.agentsh/mcp-tool-registry.json

    # Pattern detection
    detection:
      # Built-in detection patterns (all enabled by default)
      builtin:
        credential_theft: true      # ~/.ssh, .env, tokens
        exfiltration: true          # curl, wget, nc patterns
        hidden_instructions: true   # IMPORTANT:, HIDDEN:, IGNORE PREVIOUS
        shell_injection: true       # ; | && $() ` patterns
        path_traversal: true        # ../ patterns

      # Custom detection patterns (regex)
      custom_patterns:
        - name: internal_api
          pattern: "internal\\.corp\\.example\\.com"
          severity: high
          description: "References to internal API endpoints"

      # Severity threshold for alerts (low | medium | high | critical)
      # Only detections at or above this level generate alerts
      alert_threshold: high  # Default: high

    # Response actions (MVP: alert only, no blocking)
    on_detection:
      # Webhook for security alerts (optional)
      webhook_url: ""
"###;

const BUILTIN_PATTERNS: &str = r###"# Built-in patterns (always available)
builtin_patterns:
  credential_theft:
    severity: critical
    patterns:
      - "~/.ssh"
      - ".ssh/id_"
      - ".env"
      - "credentials"
      - "api[_-]?key"
      - "secret[_-]?key"
      - "access[_-]?token"
      - "private[_-]?key"
      - "passwd"
      - "shadow"

  exfiltration:
    severity: high
    patterns:
      - "curl\\s+.*\\s+https?://"
      - "wget\\s+"
      - "nc\\s+-"
      - "netcat"
      - "base64.*\\|.*curl"
      - "\\|\\s*curl"

  hidden_instructions:
    severity: high
    patterns:
      - "(?i)IMPORTANT:\\s*(?!read|see|note the)"
      - "(?i)HIDDEN:"
      - "(?i)SECRET:"
      - "(?i)DO NOT SHOW"
      - "(?i)IGNORE PREVIOUS"
      - "(?i)SYSTEM OVERRIDE"

  shell_injection:
    severity: medium
    patterns:
      - ";\\s*[a-z]"
      - "\\|\\s*[a-z]"
      - "&&\\s*[a-z]"
      - "\\$\\("
      - "`[^`]+`"

  path_traversal:
    severity: medium
    patterns:
      - "\\.\\./\\.\\."
      - "/etc/"
      - "/root/"
      - "/home/[^/]+/\\."
"###;

const PROXY_EMBEDDED: &str = r###"# Existing: full proxy with DLP + MCP interception
proxy:
  mode: embedded
dlp:
  mode: redact
"###;

const PROXY_MCP_ONLY: &str = r###"# New: proxy captures traffic and enforces MCP policy, no DLP
proxy:
  mode: mcp-only    # Implies dlp.mode: disabled, llm_storage.store_bodies: true
"###;

const EXTENDED: &str = r###"sandbox:
  mcp:
    enforce_policy: true
    fail_closed: true           # Block unknown tools/servers

    # Server declarations — the source of truth for the registry
    servers:
      - id: filesystem
        type: stdio
        command: npx
        args: ["@modelcontextprotocol/server-filesystem", "/home/user"]

      - id: weather-api
        type: http
        url: https://mcp.example.com/sse

      - id: internal-tools
        type: http
        url: https://mcp.internal.corp:8443/mcp
        # Optional: pin expected TLS fingerprint
        tls_fingerprint: "sha256:abc123..."

    # Server-level policy: which servers are allowed at all
    server_policy: allowlist     # "allowlist" | "denylist" | "none"
    allowed_servers:
      - id: filesystem
      - id: weather-api
    denied_servers:
      - id: "*"                  # Deny everything not explicitly allowed

    # Tool-level policy (existing, extended)
    tool_policy: denylist
    allowed_tools:
      - server: "*"
        tool: "*"               # Allow all tools by default
    denied_tools:
      - server: weather-api
        tool: "delete_*"        # Block destructive tools from weather API
      - server: "*"
        tool: "execute_command" # Block dangerous tool names from any server

    # Version pinning (existing)
    version_pinning:
      enabled: true
      on_change: block
      auto_trust_first: true

    # Rate limits (existing)
    rate_limits:
      enabled: true
      default_rpm: 60
      per_server:
        weather-api:
          calls_per_minute: 10
          burst: 3
"###;

const REFERENCE: &str = r###"sandbox:
  mcp:
    enforce_policy: true # Enable MCP enforcement (default: false)
    fail_closed: false # Block unknown tools (default: false)
    # Server-level policy
    server_policy: "allowlist" # allowlist | denylist | none
    allowed_servers:
      - id: "internal-*"
    denied_servers:
      - id: "untrusted_*"
    # Tool-level policy
    tool_policy: "allowlist" # allowlist | denylist | none
    allowed_tools:
      - server: "database"
        tool: "query_*"
        content_hash: "sha256:..."
    denied_tools:
      - server: "*"
        tool: "exec_*"
    # Version pinning
    version_pinning:
      enabled: true
      on_change: "block" # block | alert | allow
      auto_trust_first: true
      pin_binary: true # Pin server executable hash (TOCTOU protection)
    # Rate limiting
    rate_limits:
      enabled: true
      default_rpm: 100
      default_burst: 10
      per_server:
        external-api:
          calls_per_minute: 10
          burst: 2
    # Cross-server attack detection
    cross_server:
      enabled: true
      shadow_tool:
        enabled: true
        similarity_check: true # Typosquatting detection
        similarity_threshold: 0.85 # Levenshtein similarity threshold
      read_then_send:
        enabled: true
        window: "30s"
      burst:
        enabled: true
        max_calls: 10
        window: "5s"
      cross_server_flow:
        enabled: true
        same_turn_only: true
        window: "30s"
    # Tool definition & output inspection
    detection:
      enabled: true
    output_inspection:
      enabled: true
      on_detection: "block" # alert | block
    # Per-server declarations
    servers:
      - id: "my-server"
        command: "npx"
        args: ["-y", "@modelcontextprotocol/server-example"]
        env_allow: ["GITHUB_TOKEN"] # Allowlist: only these + standard vars
        env_deny: ["AWS_*"] # Denylist: strip these vars
"###;

const GENERATED: &str = r###"mcp_rules:
  enforce_policy: true
  tool_policy: "allowlist"
  allowed_tools:
    # Provenance: 2 events (10:30:17 - 10:30:18)
    - server: "notes"
      tool: "read_note"
      content_hash: "sha256:a1b2c3"
    # Provenance: 1 events (10:30:17)
    - server: "notes"
      tool: "write_note"
      content_hash: "sha256:d4e5f6"
  server_policy: "allowlist"
  allowed_servers:
    - id: "notes"
    - id: "web-search"
  # --- Blocked tools (uncomment to allow) ---
  # denied_tools:
  #   - server: "web-search"
  #     tool: "fetch_url"
  version_pinning:
    enabled: true
    on_change: "block"
    auto_trust_first: true
  cross_server:
    enabled: true
    read_then_send:
      enabled: true
"###;

const SERVER_POLICY: &str = r###"sandbox:
  mcp:
    server_policy: "allowlist"
    allowed_servers:
      - id: "internal-*" # Glob patterns supported
      - id: "llm-tools"
    denied_servers: # Used when server_policy: "denylist"
      - id: "untrusted_*"
"###;

const ENVIRONMENT: &str = r###"sandbox:
  mcp:
    servers:
      - id: "github-server"
        command: "npx"
        args: ["-y", "@modelcontextprotocol/server-github"]
        env_allow: ["GITHUB_TOKEN"] # Only GITHUB_TOKEN + standard vars
      - id: "data-server"
        command: "python"
        args: ["server.py"]
        env_deny: ["AWS_*", "ANTHROPIC_API_KEY"] # Strip these, pass all others
"###;

const STRUCTURE: &str = r###"defaults:
  decision: "AUDIT"          # ALLOW, AUDIT, or BLOCK

# Tools always blocked (exact name or glob)
blocked_tools:
  - "execute_command"
  - "run_shell"
  - "run_terminal_command"

# Fine-grained rules
rules:
  - id: block-ssh-access
    match:
      tool_name_any:          # match any of these tool names
        - "read_file"
        - "write_file"
      argument_patterns:      # all patterns must match
        path: "**/.ssh/**"    # glob with ** for recursive match
    decision: "BLOCK"
    reason: "Access to SSH key directories is blocked."
"###;

const RESOURCES: &str = r###"# In mcp-policy.yaml
blocked_resources:
  - "secret://*"

resource_rules:
  - id: block-database
    match:
      scheme: "postgres"     # blocks postgres://...
    decision: "BLOCK"
    reason: "Direct database access is blocked."

  - id: block-internal-api
    match:
      uri_regex: "internal\\.corp\\.com"
    decision: "BLOCK"
    reason: "Internal API resources blocked."
"###;

const LIMITS: &str = r###"value_limits:
  # Block any crypto transfer above 1000 tokens
  - id: block-large-crypto-transfer
    tool_name_regex: "send_.*|transfer_.*"
    argument: "amount"
    max: 1000
    decision: "BLOCK"
    reason: "Crypto transfer exceeds safety limit of 1000 tokens."

  # Audit payments above $10
  - id: audit-medium-payment
    tool_pattern: "pay_*"
    argument: "amount"
    max: 10
    decision: "AUDIT"
    reason: "Payment above $10 flagged for review."

  # Block negative withdrawals (overflow protection)
  - id: block-negative-withdraw
    tool_pattern: "withdraw"
    argument: "amount"
    min: 0
    decision: "BLOCK"
    reason: "Withdrawal amount must not be negative."

  # Global quantity cap for any tool
  - id: global-quantity-cap
    argument: "quantity"
    max: 1000
    decision: "BLOCK"
    reason: "Quantity exceeds global cap."
"###;

const READ_THEN_SEND: &str = r###"read_then_send:
  enabled: true
  window: 30s
"###;

const BURST: &str = r###"burst:
  enabled: true
  max_calls: 10
  window: 5s
"###;

const FLOW: &str = r###"cross_server_flow:
  enabled: true
  same_turn_only: true   # only flag if in same LLM request
  window: 30s            # fallback if same_turn_only: false
"###;

const SHADOW: &str = r###"shadow_tool:
  enabled: true
"###;

/// Returns the converted file, followed by the notes.
fn shown(from: ImportedTool, text: &str) -> String {
    let (imported, _) = imported(from, text);
    let body: Vec<_> = imported
        .text
        .lines()
        .skip_while(|line| line.starts_with('#'))
        .collect();
    format!("{}\n---\n{}", body.join("\n"), told(&imported.notes))
}

#[test]
fn patterns() {
    assert_snapshot!(shown(Agentsh, PATTERNS));
}

#[test]
fn inspection() {
    assert_snapshot!(shown(Agentsh, INSPECTION));
}

#[test]
fn builtin_patterns() {
    assert_snapshot!(shown(Agentsh, BUILTIN_PATTERNS));
}

#[test]
fn proxy_embedded() {
    assert_snapshot!(shown(Agentsh, PROXY_EMBEDDED));
}

#[test]
fn proxy_mcp_only() {
    assert_snapshot!(shown(Agentsh, PROXY_MCP_ONLY));
}

#[test]
fn extended() {
    assert_snapshot!(shown(Agentsh, EXTENDED));
}

#[test]
fn reference() {
    assert_snapshot!(shown(Agentsh, REFERENCE));
}

#[test]
fn generated() {
    assert_snapshot!(shown(Agentsh, GENERATED));
}

#[test]
fn server_policy() {
    assert_snapshot!(shown(Agentsh, SERVER_POLICY));
}

#[test]
fn environment() {
    assert_snapshot!(shown(Agentsh, ENVIRONMENT));
}

#[test]
fn structure() {
    assert_snapshot!(shown(Agentshield, STRUCTURE));
}

#[test]
fn resources() {
    assert_snapshot!(shown(Agentshield, RESOURCES));
}

#[test]
fn limits() {
    assert_snapshot!(shown(Agentshield, LIMITS));
}

#[test]
fn read_then_send() {
    assert_snapshot!(shown(Agentsh, READ_THEN_SEND));
}

#[test]
fn burst() {
    assert_snapshot!(shown(Agentsh, BURST));
}

#[test]
fn flow() {
    assert_snapshot!(shown(Agentsh, FLOW));
}

#[test]
fn shadow() {
    assert_snapshot!(shown(Agentsh, SHADOW));
}
#[test]
fn what_is_carried_over_holds() {
    let (_, loaded) = imported(Agentsh, EXTENDED);
    assert!(loaded.policy.fail_closed);
    assert_eq!(loaded.policy.servers.len(), 3);
    assert!(matches!(&loaded.policy.server_policy, ServerPolicy::Allowlist(ids) if ids.len() == 2));
    let (_, loaded) = imported(Agentsh, INSPECTION);
    assert_eq!(loaded.policy.definition_pinning.on_change, OnChange::Alert);
    assert_eq!(loaded.policy.inspection.custom.len(), 1);
}
