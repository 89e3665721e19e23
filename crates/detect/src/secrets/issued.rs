//! Secrets that their issuers mark: a prefix, an alphabet, a length. One table for what is reported and what is masked.

use std::{collections::BTreeMap, ops::Range, sync::LazyLock};

use mcpmon_model::Severity;

use super::{checks, value};

/// A kind of secret that its issuer marks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Issued {
    /// Name of the pattern.
    pub(super) kind: &'static str,
    /// The prefix.
    pub(super) prefix: &'static str,
    /// The characters that may follow.
    alphabet: Alphabet,
    /// Fewest and most characters that follow.
    length: (u16, u16),
}

/// Characters that a secret is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Alphabet {
    /// `0-9a-f`, upper case too.
    Hex,
    /// `A-Z0-9`
    Upper,
    /// `a-z0-9`
    Lower,
    /// Letters and digits.
    Word,
    /// Letters, digits, `-` and `_`.
    Url,
    /// Those, and `.`.
    Dotted,
    /// Those, and `+`, `/`, `=`, `%`, `~`, `|`, `:`, `,`, `$`, `!`.
    Wide,
}

/// Secrets that may be longer are looked at so far before they are taken for one.
const LONG: u16 = 512;

/// Shortest secret that is one beyond doubt, without its prefix.
const SURE: usize = 16;
/// Length of a prefix that nothing else begins with.
const MARKED: usize = 5;

const fn row(kind: &'static str, prefix: &'static str, alphabet: Alphabet, least: u16, most: u16) -> Issued {
    Issued {
        kind,
        prefix,
        alphabet,
        length: (least, most),
    }
}

use Alphabet::{Dotted, Hex, Lower, Upper, Url, Wide, Word};

/// Formats that issuers document, by issuer.
pub(super) const ISSUED: &[Issued] = &[
    row("aws_credential", "AKIA", Upper, 16, 16),
    row("aws_credential", "ASIA", Upper, 16, 16),
    row("aws_credential", "ABIA", Upper, 16, 16),
    row("aws_credential", "ACCA", Upper, 16, 16),
    row("aws_credential", "ABSK", Wide, 80, 300),
    row("aws_credential", "bedrock-api-key-", Wide, 60, LONG),
    row("aws_credential", "da2-", Lower, 26, 26),
    row("github_token", "ghp_", Word, 30, 255),
    row("github_token", "gho_", Word, 30, 255),
    row("github_token", "ghu_", Word, 30, 255),
    row("github_token", "ghs_", Dotted, 30, LONG),
    row("github_token", "ghr_", Word, 30, 255),
    row("github_token", "github_pat_", Url, 22, 255),
    row("gitlab_token", "glpat-", Dotted, 20, 300),
    row("gitlab_token", "gldt-", Dotted, 20, 300),
    row("gitlab_token", "glrt-", Dotted, 20, 300),
    row("gitlab_token", "glrtr-", Dotted, 20, 300),
    row("gitlab_token", "glcbt-", Dotted, 20, 300),
    row("gitlab_token", "glptt-", Dotted, 20, 300),
    row("gitlab_token", "glft-", Dotted, 20, 300),
    row("gitlab_token", "glimt-", Dotted, 20, 300),
    row("gitlab_token", "glagent-", Dotted, 20, 300),
    row("gitlab_token", "glsoat-", Dotted, 20, 300),
    row("gitlab_token", "glffct-", Dotted, 20, 300),
    row("gitlab_token", "glwt-", Dotted, 20, 300),
    row("gitlab_token", "gloas-", Dotted, 40, 300),
    row("gitlab_token", "GR1348941", Url, 20, 20),
    row("slack_token", "xoxb-", Url, 18, 300),
    row("slack_token", "xoxp-", Url, 18, 300),
    row("slack_token", "xoxa-", Url, 18, 300),
    row("slack_token", "xoxr-", Url, 18, 300),
    row("slack_token", "xoxs-", Url, 18, 300),
    row("slack_token", "xoxo-", Url, 18, 300),
    row("slack_token", "xoxc-", Url, 18, 300),
    row("slack_token", "xoxe-", Url, 18, 300),
    row("slack_token", "xoxe.xox", Url, 18, 300),
    row("slack_token", "xoxd-", Wide, 40, 600),
    row("slack_token", "xapp-", Url, 18, 300),
    row("slack_token", "hooks.slack.com/services/", Wide, 20, 120),
    row("slack_token", "hooks.slack.com/workflows/", Wide, 20, 120),
    row("slack_token", "hooks.slack.com/triggers/", Wide, 20, 120),
    row("stripe_key", "sk_live_", Word, 12, 255),
    row("stripe_key", "sk_test_", Word, 12, 255),
    row("stripe_key", "rk_live_", Word, 12, 255),
    row("stripe_key", "rk_test_", Word, 12, 255),
    row("stripe_key", "sk_prod_", Word, 12, 255),
    row("stripe_key", "rk_prod_", Word, 12, 255),
    row("stripe_key", "whsec_", Wide, 24, 255),
    row("google_key", "AIzaSy", Url, 33, 33),
    row("google_key", "GOCSPX-", Url, 20, 40),
    row("google_key", "ya29.", Dotted, 20, LONG),
    row("google_key", "1//0", Url, 30, 300),
    row("llm_key", "sk-", Word, 32, 64),
    row("llm_key", "sk-None-", Url, 20, 300),
    row("llm_key", "sk-lf-", Url, 36, 36),
    row("llm_key", "sk-proj-", Url, 20, 300),
    row("llm_key", "sk-svcacct-", Url, 20, 300),
    row("llm_key", "sk-admin-", Url, 20, 300),
    row("llm_key", "sk-ant-", Url, 20, 300),
    row("llm_key", "sk-or-v1-", Hex, 64, 64),
    row("llm_key", "gsk_", Word, 40, 80),
    row("llm_key", "xai-", Word, 60, 120),
    row("llm_key", "r8_", Word, 37, 40),
    row("llm_key", "hf_", Word, 30, 60),
    row("llm_key", "api_org_", Word, 30, 60),
    row("llm_key", "pplx-", Word, 32, 80),
    row("llm_key", "tgp_v1_", Url, 40, 60),
    row("llm_key", "fw_", Word, 20, 40),
    row("llm_key", "nvapi-", Url, 50, 100),
    row("llm_key", "csk-", Lower, 40, 60),
    row("llm_key", "tvly-", Url, 20, 60),
    row("llm_key", "lsv2_pt_", Url, 32, 60),
    row("llm_key", "lsv2_sk_", Url, 32, 60),
    row("llm_key", "jina_", Url, 40, 90),
    row("llm_key", "llx-", Url, 40, 80),
    row("llm_key", "fc-", Hex, 32, 32),
    row("llm_key", "e2b_", Hex, 40, 60),
    row("llm_key", "esecret_", Word, 20, 60),
    row("llm_key", "ak-", Word, 20, 40),
    row("llm_key", "as-", Word, 20, 40),
    row("llm_key", "wk-", Word, 20, 40),
    row("llm_key", "ws-", Word, 20, 40),
    row("npm_token", "npm_", Word, 36, 36),
    row("pypi_token", "pypi-AgE", Url, 50, LONG),
    row("registry_token", "rubygems_", Hex, 48, 48),
    row("registry_token", "cio", Word, 32, 32),
    row("registry_token", "CLOJARS_", Lower, 60, 60),
    row("registry_token", "oy2", Lower, 43, 43),
    row("registry_token", "dckr_pat_", Url, 20, 60),
    row("registry_token", "dckr_oat_", Url, 20, 60),
    row("registry_token", "AKCp", Word, 60, 80),
    row("registry_token", "cmVmd", Word, 56, 64),
    row("registry_token", "tss_", Word, 30, 60),
    row("sendgrid_key", "SG.", Dotted, 40, 80),
    row("mail_key", "xkeysib-", Url, 60, 100),
    row("mail_key", "mlsn.", Hex, 40, 80),
    row("mail_key", "key-", Hex, 32, 32),
    row("mail_key", "re_", Url, 24, 40),
    row("mail_key", "pubkey-", Hex, 32, 32),
    row("azure_credential", "AzureKeyVault-", Url, 30, 100),
    row("digitalocean_token", "dop_v1_", Hex, 64, 64),
    row("digitalocean_token", "doo_v1_", Hex, 64, 64),
    row("digitalocean_token", "dor_v1_", Hex, 64, 64),
    row("shopify_token", "shpat_", Hex, 32, 40),
    row("shopify_token", "shpss_", Hex, 32, 40),
    row("shopify_token", "shpca_", Hex, 32, 40),
    row("shopify_token", "shppa_", Hex, 32, 40),
    row("square_token", "sq0atp-", Url, 20, 60),
    row("square_token", "sq0csp-", Url, 40, 60),
    row("square_token", "sq0idp-", Url, 20, 40),
    row("square_token", "EAAA", Url, 58, 70),
    row("facebook_token", "EAAC", Word, 60, 300),
    row("facebook_token", "EAAM", Word, 60, 300),
    row("facebook_token", "EAAB", Word, 60, 300),
    row("vault_token", "hvs.", Url, 24, 300),
    row("vault_token", "hvb.", Url, 60, 300),
    row("vault_token", "hvr.", Url, 24, 300),
    row("atlassian_token", "ATATT3", Wide, 60, 400),
    row("atlassian_token", "ATCTT3", Wide, 60, 400),
    row("atlassian_token", "ATBB", Word, 30, 60),
    row("atlassian_token", "ATTA", Word, 60, 80),
    row("atlassian_token", "ATOA", Url, 40, 200),
    row("issued_token", "lin_api_", Word, 30, 60),
    row("issued_token", "lin_oauth_", Word, 30, 80),
    row("issued_token", "ntn_", Word, 40, 60),
    row("issued_token", "secret_", Word, 43, 43),
    row("issued_token", "figd_", Url, 30, 60),
    row("issued_token", "dapi", Hex, 32, 34),
    row("issued_token", "dkea", Hex, 32, 34),
    row("issued_token", "pul-", Hex, 40, 40),
    row("issued_token", "vcp_", Word, 16, 80),
    row("issued_token", "vci_", Word, 16, 80),
    row("issued_token", "vca_", Word, 16, 80),
    row("issued_token", "vcr_", Word, 16, 80),
    row("issued_token", "vck_", Word, 16, 80),
    row("issued_token", "nfp_", Word, 30, 60),
    row("issued_token", "nfc_", Word, 30, 60),
    row("issued_token", "fo1_", Url, 40, 60),
    row("issued_token", "fm1_", Wide, 60, LONG),
    row("issued_token", "fm1a_", Wide, 60, LONG),
    row("issued_token", "fm1r_", Wide, 60, LONG),
    row("issued_token", "fm2_", Wide, 60, LONG),
    row("issued_token", "HRKU-", Url, 36, 80),
    row("issued_token", "rnd_", Word, 28, 40),
    row("issued_token", "pscale_tkn_", Dotted, 30, 80),
    row("issued_token", "pscale_pw_", Dotted, 30, 80),
    row("issued_token", "pscale_oauth_", Dotted, 30, 80),
    row("issued_token", "sbp_", Url, 40, 60),
    row("issued_token", "sb_secret_", Url, 31, 31),
    row("issued_token", "napi_", Lower, 60, 80),
    row("issued_token", "dp.pt.", Dotted, 20, 80),
    row("issued_token", "dp.st.", Dotted, 20, 80),
    row("issued_token", "dp.sa.", Dotted, 20, 80),
    row("issued_token", "dp.ct.", Dotted, 20, 80),
    row("issued_token", "dp.scim.", Dotted, 20, 80),
    row("issued_token", "dp.audit.", Dotted, 20, 80),
    row("issued_token", "ops_", Wide, 24, LONG),
    row("issued_token", "NRAK-", Upper, 27, 27),
    row("issued_token", "NRAL-", Url, 27, 60),
    row("issued_token", "NRII-", Url, 30, 40),
    row("issued_token", "NRIQ-", Url, 30, 40),
    row("issued_token", "NRSP-", Url, 30, 60),
    row("issued_token", "glc_", Wide, 32, 400),
    row("issued_token", "glsa_", Url, 40, 60),
    row("issued_token", "sntrys_", Wide, 60, 400),
    row("issued_token", "sntryu_", Hex, 64, 64),
    row("issued_token", "sqp_", Hex, 40, 40),
    row("issued_token", "sqa_", Hex, 40, 40),
    row("issued_token", "squ_", Hex, 40, 40),
    row("issued_token", "snyk_", Dotted, 30, 100),
    row("issued_token", "PMAK-", Url, 50, 80),
    row("issued_token", "PMAT-", Url, 20, 40),
    row("issued_token", "bkua_", Word, 28, 60),
    row("issued_token", "bkpt_", Word, 28, 80),
    row("issued_token", "CCIPAT_", Url, 40, 100),
    row("issued_token", "CCIPRJ_", Url, 40, 100),
    row("issued_token", "CFPAT-", Url, 40, 60),
    row("issued_token", "sl.", Url, 100, LONG),
    row("issued_token", "IGQV", Url, 60, 300),
    row("issued_token", "shippo_live_", Hex, 40, 40),
    row("issued_token", "shippo_test_", Hex, 40, 40),
    row("issued_token", "EZAK", Word, 50, 60),
    row("issued_token", "EZTK", Word, 50, 60),
    row("issued_token", "duffel_live_", Url, 40, 60),
    row("issued_token", "duffel_test_", Url, 40, 60),
    row("issued_token", "FLWSECK", Url, 14, 60),
    row("issued_token", "tfp_", Dotted, 40, 80),
    row("issued_token", "rdme_", Lower, 60, 80),
    row("issued_token", "pnu_", Word, 30, 50),
    row("issued_token", "pnb_", Word, 30, 50),
    row("issued_token", "fio-u-", Url, 50, 80),
    row("issued_token", "ico-", Word, 32, 32),
    row("issued_token", "pat-na1-", Url, 36, 36),
    row("issued_token", "pat-eu1-", Url, 36, 36),
    row("issued_token", "p8e-", Lower, 32, 32),
    row("issued_token", "LTAI", Word, 16, 24),
    row("issued_token", "AKID", Word, 28, 36),
    row("issued_token", "dt0c01.", Dotted, 80, 100),
    row("issued_token", "dt0s01.", Dotted, 60, 100),
    row("issued_token", "API-", Upper, 25, 32),
    row("issued_token", "sha256~", Url, 43, 43),
    row("issued_token", "tskey-", Url, 24, 80),
    row("issued_token", "AQVN", Url, 35, 40),
    row("issued_token", "YCAJE", Url, 20, 30),
    row("issued_token", "t1.", Wide, 180, 300),
    row("issued_token", "zpka_", Url, 32, 60),
    row("issued_token", "tk-us-", Url, 48, 48),
    row("issued_token", "sm_pat_", Word, 16, 40),
    row("issued_token", "sm_aat_", Word, 16, 40),
    row("issued_token", "sm_sat_", Word, 16, 40),
    row("issued_token", "sgp_", Hex, 40, 40),
    row("issued_token", "slk_", Hex, 64, 64),
    row("issued_token", "endr+", Url, 16, 60),
    row("issued_token", "pat.", Dotted, 60, 80),
    row("issued_token", "sat.", Dotted, 60, 80),
    row("issued_token", "polar_", Url, 40, 80),
    row("issued_token", "unkey_", Word, 20, 60),
    row("issued_token", "phx_", Url, 32, 60),
    row("issued_token", "phs_", Url, 32, 60),
    row("issued_token", "phr_", Url, 32, 60),
    row("issued_token", "rootly_", Hex, 64, 64),
    row("issued_token", "rpa_", Word, 40, 60),
    row("issued_token", "samsara_api_", Word, 30, 40),
    row("issued_token", "KEY0", Url, 40, 70),
    row("issued_token", "vtwn_", Word, 20, 60),
    row("issued_token", "waka_", Url, 36, 36),
    row("issued_token", "configcat-sdk-1/", Wide, 40, 60),
    row("issued_token", "mdb_sa_sk_", Url, 40, 60),
    row("issued_token", "cflt", Wide, 60, 80),
    row("issued_token", "pcsk_", Url, 50, 90),
    row("issued_token", "pdl_live_apikey_", Url, 40, 80),
    row("issued_token", "pdl_sdbx_apikey_", Url, 40, 80),
    row("issued_token", "ion_", Word, 40, 60),
    row("issued_token", "retool_", Word, 20, 60),
    row("issued_token", "ramp_sec_", Word, 40, 60),
    row("issued_token", "cnvca", Url, 40, 60),
    row("issued_token", "mergify_application_key_", Url, 60, 100),
    row("issued_token", "mercury_production_", Url, 30, 100),
    row("issued_token", "gb_api_", Word, 30, 60),
    row("issued_token", "CCDB1_", Url, 60, 80),
    row("issued_token", "prf_live_", Word, 24, 60),
    row("issued_token", "apikey_live_", Hex, 40, 80),
    row("issued_token", "VF.", Dotted, 40, 80),
    row("issued_token", "live_", Word, 35, 60),
    row("issued_token", "key_live_", Word, 30, 60),
    row("issued_token", "codakey-", Url, 36, 36),
    row("issued_token", "wandb_v1_", Url, 40, 100),
    row("issued_token", "tkn.v1_", Wide, 60, 100),
    row("issued_token", "BBFF-", Word, 30, 40),
    row("issued_token", "v1.0-", Hex, 24, 24),
    row("issued_token", "cfut_", Url, 30, 80),
    row("issued_token", "cfat_", Url, 30, 80),
    row("issued_token", "A3-", Url, 33, 36),
    row("issued_token", "SWMTKN-1-", Url, 60, 100),
    row("issued_token", "access_token$production$", Wide, 40, 60),
    row("issued_token", "s-s4t2ud-", Hex, 64, 64),
    row("issued_token", "s-s4t2af-", Hex, 64, 64),
    row("bearer_token", "AAAAAAAAAAAAAAAAAAAA", Wide, 50, 300),
    row("private_key", "AGE-SECRET-KEY-1", Upper, 58, 58),
    row("private_key", "b3BlbnNzaC1rZXktdjEA", Wide, 60, LONG),
];

/// Returns whether a value begins as one of an issuer does, by a prefix that is long enough to say so, and
/// goes on.
pub(super) fn begins(value: &str) -> bool {
    let first = value.bytes().next();
    let known = first.and_then(|first| TELLING.get(&first));
    let goes_on = |prefix: &&str| {
        let rest = value.strip_prefix(prefix).unwrap_or_default();
        rest.bytes().filter(u8::is_ascii_alphanumeric).count() >= SHOWN
    };
    known.is_some_and(|known| known.iter().any(goes_on))
}

/// Letters and digits behind a prefix that are more than documents show of a token.
const SHOWN: usize = 4;

/// Prefixes that say so by themselves, by their first byte.
static TELLING: LazyLock<BTreeMap<u8, Vec<&'static str>>> = LazyLock::new(|| {
    let says = |prefix: &&str| prefix.len() >= 3 && prefix.ends_with(['_', '-', '.', '/']);
    let prefixes = ISSUED.iter().map(|row| row.prefix).filter(says);
    let mut telling: BTreeMap<u8, Vec<&str>> = BTreeMap::new();
    for prefix in prefixes.chain(["eyJ"]) {
        telling.entry(prefix.as_bytes()[0]).or_default().push(prefix);
    }
    telling
});

/// The result at a position where a prefix was found.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Found {
    /// A secret.
    Secret(Range<usize>, Severity),
    /// Plain words, up to here.
    Words(usize),
    /// Something else.
    Nothing,
}

impl Issued {
    /// Judges `text` where the prefix was found, in any case, at `start`.
    pub(super) fn at(&self, text: &str, start: usize) -> Found {
        let bytes = text.as_bytes();
        let body = start + self.prefix.len();
        let has_prefix = bytes
            .get(start..body)
            .is_some_and(|prefix| prefix == self.prefix.as_bytes());
        let joins = |before: u8| {
            before.is_ascii_alphanumeric()
                || before == b'+'
                || self.is_short() && matches!(before, b'.' | b'/')
        };
        if !has_prefix || start > 0 && joins(bytes[start - 1]) {
            return Found::Nothing;
        }
        let rest = &bytes[body..];
        let run = |most: usize| {
            let end = rest.iter().take(most).position(|byte| !self.alphabet.has(*byte));
            end.unwrap_or_else(|| rest.len().min(most))
        };
        let most = usize::from(self.length.1);
        let mut length = run(most);
        if length == usize::from(LONG) {
            length = run(usize::MAX);
        }
        // A full stop, a colon or a comma behind a secret is not its own.
        while length > 0
            && !rest[length - 1].is_ascii_alphanumeric()
            && !matches!(rest[length - 1], b'_' | b'-' | b'=')
        {
            length -= 1;
        }
        let goes_on = rest.get(length).is_some_and(u8::is_ascii_alphanumeric);
        if length < usize::from(self.length.0) || goes_on {
            return Found::Nothing;
        }
        // What is followed by dots or stars was made unreadable.
        let is_hidden = rest
            .get(length)
            .is_some_and(|byte| matches!(byte, b'#' | b'*' | b'<' | b'[' | b'{'))
            || rest[length..].starts_with(b"..");
        if is_hidden {
            return Found::Secret(start..body + length, Severity::Low);
        }
        match self.severity(&text[body..body + length]) {
            Some(severity) => Found::Secret(start..body + length, severity),
            None => Found::Words(body + length),
        }
    }

    /// Returns whether a secret of this format was generated beyond doubt.
    pub(super) fn is_certain(&self, secret: &str) -> bool {
        let body = secret.strip_prefix(self.prefix).unwrap_or(secret);
        match self.kind {
            // The first of a pair is short, and in capitals: its prefix is rare enough.
            "aws_credential" => !value::is_wordy(body) && !value::counts(body),
            // What is long says more than that somebody issued it.
            _ if self.prefix.len() >= MARKED => body.len() >= SURE && !value::is_invented(body),
            _ => body.len() >= SURE && value::is_generated(body),
        }
    }

    /// Returns whether the prefix can be the end of another word.
    fn is_short(&self) -> bool {
        self.prefix.len() <= 4
            && matches!(
                self.kind,
                "issued_token" | "mail_key" | "llm_key" | "registry_token"
            )
    }

    fn severity(&self, body: &str) -> Option<Severity> {
        let is_checked = match self.prefix {
            "ghp_" | "gho_" | "ghu_" | "ghs_" | "ghr_" | "npm_" => {
                body.len() >= 36 && checks::has_crc32(body)
            }
            _ => false,
        };
        if is_checked {
            return Some(Severity::Critical);
        }
        if value::is_placeholder(body) || self.is_made_up(body) {
            return Some(Severity::Low);
        }
        // A prefix of a few letters says little: what follows has to look generated.
        let has_digit = body.bytes().any(|byte| byte.is_ascii_digit());
        let is_plain = match self.alphabet {
            Hex | Upper => false,
            Lower | Word | Url | Dotted | Wide => {
                value::is_wordy(body) || !has_digit && body.len() < 40 && self.prefix.len() < 5
            }
        };
        let is_marked = matches!(self.kind, "aws_credential" | "github_token");
        let is_weak = self.prefix.len() <= 4 && !has_digit;
        (is_marked || !is_plain && !is_weak).then_some(Severity::High)
    }

    /// Sequences are what people type who need something of this form.
    fn is_made_up(&self, body: &str) -> bool {
        value::is_sequential(body) && self.kind != "github_token"
    }
}

impl Alphabet {
    const fn has(self, byte: u8) -> bool {
        match self {
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Upper => byte.is_ascii_uppercase() || byte.is_ascii_digit(),
            Self::Lower => byte.is_ascii_lowercase() || byte.is_ascii_digit(),
            Self::Word => byte.is_ascii_alphanumeric(),
            Self::Url => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'),
            Self::Dotted => byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
            Self::Wide => {
                byte.is_ascii_alphanumeric()
                    || matches!(
                        byte,
                        b'-' | b'_'
                            | b'.'
                            | b'+'
                            | b'/'
                            | b'='
                            | b'%'
                            | b'~'
                            | b'|'
                            | b':'
                            | b','
                            | b'$'
                            | b'!'
                    )
            }
        }
    }
}
