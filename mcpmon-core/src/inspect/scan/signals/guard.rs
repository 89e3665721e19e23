//! Texts that speak in the name of mcpmon, or tell the reader to lift its protection.

use super::{Shape, Signal};

const NAMES: &[&str] = &["mcpmon", "mcp-mon", "mcp mon"];

pub(super) const SHAPES: &[Shape] = &[
    // `[mcpmon] …` and `mcpmon: …` begin what mcpmon says; `[mcpmon:github_token]` stands where a secret was, and
    // `[mcpmon](…)` is a link.
    Shape {
        signal: Signal::PosesAsGuard,
        anchors: NAMES,
        pattern: r"\[\s?mcp[ -]?mon\b[^\]:\n]{0,40}\](?:[^(\[:]|$)|(?:^|\n)[ \t>#*-]{0,6}mcp[ -]?mon(?:%w%(?:security|policy|system|notice|alert|warning|error|message|info|agent)){0,2}\s?:|\b(?:message|notice|warning|alert|instructions?|orders?|request|note|update)%w%(?:from|of|by)%w%(?:the%w%)?mcp[ -]?mon\b|\bmcp[ -]?mon%w%(?:security%w%|policy%w%|now%w%|has%w%|hereby%w%){0,2}(?:requires?|needs|asks|wants|instructs?|orders?|tells|verified|approved|authori[sz]e[sd]|cleared|confirmed|allow(?:s|ed))%w%(?:that%w%)?(?:you|the%w%(?:agent|assistant|model|user)|this%w%(?:call|tool|result|server|request|action|session))\b",
    },
    Shape {
        signal: Signal::LiftsGuard,
        anchors: NAMES,
        pattern: r"\bmcp[ -]?mon\s+(?:--?[a-z=/.-]+\s+)?(?:setup\s[^\n;|&]{0,60}?--disable|approve\s|approvals\s+allow\b|kill\s[^\n;|&]{0,60}?--off\b|pins\s+(?:reset|trust)\b)|\b(?:disabl(?:e|ing)|stop(?:ping)?|uninstall(?:ing)?|remov(?:e|ing)|kill(?:ing)?|turn(?:ing)?%w%off|switch(?:ing)?%w%off|bypass(?:ing)?|deactivat(?:e|ing)|unload(?:ing)?|pkill|killall|unwrap|(?:systemctl|service)\s[^\n;|&]{0,30}?(?:stop|disable|mask|kill))[^a-z.!?;]+(?:the[^a-z.!?;]+)?(?:-\w+\s+)?mcp[ -]?mon\b",
    },
];
