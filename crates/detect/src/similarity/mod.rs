//! Names of servers that look like others, so that a person or a model confuses them.

use crate::normalise::skeleton::Skeleton;
use crate::tables::{self, WordList};

/// Names that many hosts use: the reference servers and those of widely used vendors.
pub fn well_known() -> &'static [&'static str] {
    &WELL_KNOWN
}

/// A known name that another name resembles.
#[derive(Clone, Debug, PartialEq)]
pub struct Resemblance {
    /// The other name.
    pub similar_to: String,
    /// The similarity, from 0 to 1: 1 minus the edit distance by the longer name's length.
    pub score: f64,
    /// The kind of resemblance: `skeleton`, `delimiter`, `word_order`, `transposition`, `edit`, `edits`, `suffix`,
    /// `owner`, `levenshtein`, `ratio`.
    pub method: &'static str,
}

/// The least similarity of long names.
pub const LIKE: f64 = 0.85;

/// Returns the known name to which `name` is most similar: 1 minus the edit distance by the longer name's length is at
/// least `threshold`. Letters that look alike count as equal. The same name is not compared.
pub fn similar<'k>(
    name: &str,
    known: impl IntoIterator<Item = &'k str>,
    threshold: f64,
) -> Option<Resemblance> {
    let (plain, folded) = (name.to_lowercase(), Skeleton::of(name).text.to_lowercase());
    let others = known.into_iter().filter(|other| *other != name);
    let similar = others.filter_map(|other| {
        let as_written = strsim::normalized_levenshtein(&plain, &other.to_lowercase());
        let as_seen = strsim::normalized_levenshtein(&folded, &Skeleton::of(other).text.to_lowercase());
        let score = as_written.max(as_seen);
        (score >= threshold).then(|| Resemblance {
            similar_to: other.to_owned(),
            score,
            method: "ratio",
        })
    });
    similar.max_by(|a, b| a.score.total_cmp(&b.score))
}

/// Returns the known name that `name` resembles most; `None` if there is none, or if `name` is a known one.
///
/// Names resemble each other with one edit in a word of six letters or more, with two that replace letters in one of
/// eight or more, and if they differ in look-alikes, delimiters or the order of words only. Long names resemble each
/// other if their similarity is at least [`LIKE`].
pub fn resembles<'k>(name: &str, known: impl IntoIterator<Item = &'k str>) -> Option<Resemblance> {
    let candidate = ComparedName::of(name);
    let mut likest: Option<Resemblance> = None;
    for other in known {
        let known = ComparedName::of(other);
        if candidate.is_variant_of(&known) {
            return None;
        }
        let Some(method) = candidate.method(&known) else {
            continue;
        };
        let score = score(&candidate.folded, &known.folded);
        if likest.as_ref().is_none_or(|likest| score > likest.score) {
            likest = Some(Resemblance {
                similar_to: other.to_owned(),
                score,
                method,
            });
        }
    }
    likest
}

/// Reference servers first, then those of widely used vendors and projects; without scopes and affixes.
static WELL_KNOWN: WordList = tables::SIMILARITY.list("similarity", "well_known");

/// Words that only say that a server is one, at any place in the name.
static AFFIXES: WordList = tables::SIMILARITY.list("similarity", "affixes");
/// Endings that squatters append to a name.
static SUFFIXES: WordList = tables::SIMILARITY.list("similarity", "suffixes");
/// Shortest word in which one edit is a slip and does not make another word.
const SLIP: usize = 6;
/// Shortest word in which two letters can be swapped.
const SWAP: usize = 5;
/// Shortest word in which two edits are a slip.
const TWO_SLIPS: usize = 8;
/// Names above this length are compared as a whole; in a shorter one, more edits make another name.
const LONG: usize = 16;
/// Most edits that are a slip.
const SLIPS: usize = 2;

/// A name with its parts.
struct ComparedName {
    /// The name in lower case, without its scope.
    plain: String,
    /// As it looks.
    folded: String,
    /// The publisher, if the name has one.
    owner: Option<String>,
    /// Its words.
    all: Vec<String>,
    /// Its words, without those that any server's name can have.
    words: Vec<String>,
}

impl ComparedName {
    fn of(name: &str) -> Self {
        let lower = name.trim().to_lowercase();
        let (owner, plain) = match lower.rsplit_once('/') {
            Some((owner, rest)) => (Some(owner.to_owned()), rest.to_owned()),
            None => (None, lower),
        };
        let folded = Skeleton::of(&plain).text.to_lowercase();
        let all: Vec<String> = folded
            .split(|c: char| !c.is_alphanumeric())
            .filter(|word| !word.is_empty())
            .map(str::to_owned)
            .collect();
        let words = all
            .iter()
            .filter(|word| !AFFIXES.contains(&word.as_str()))
            .cloned()
            .collect();
        Self {
            plain,
            folded,
            owner,
            all,
            words,
        }
    }

    /// Returns whether this is another usual name of the same server: with its scope, with `mcp-server-` before or
    /// `-mcp` after the name.
    fn is_variant_of(&self, known: &Self) -> bool {
        self.words == known.words
            && self.is_as_it_looks()
            && self.has_dots() == known.has_dots()
            && (self.owner == known.owner || self.short_owner().is_none() || known.short_owner().is_none())
    }

    fn is_as_it_looks(&self) -> bool {
        self.plain == self.folded
    }

    fn has_dots(&self) -> bool {
        self.plain.contains('.')
    }

    /// Returns `host/owner` of a module path: a module with another owner is another module. A scope is not one.
    fn short_owner(&self) -> Option<&str> {
        self.owner
            .as_deref()
            .filter(|owner| owner.contains('/') && owner.contains('.'))
    }

    fn method(&self, known: &Self) -> Option<&'static str> {
        if self.words == known.words {
            return Some(
                match (self.is_as_it_looks(), self.has_dots() == known.has_dots()) {
                    (false, _) => "skeleton",
                    (true, false) => "delimiter",
                    (true, true) => "owner",
                },
            );
        }
        let (mine, theirs) = (self.words.concat(), known.words.concat());
        let length = mine.chars().count().min(theirs.chars().count());
        if length >= SWAP && mine == theirs {
            return Some("delimiter");
        }
        if sorted(&self.words) == sorted(&known.words) {
            return Some("word_order");
        }
        if length >= SWAP
            && mine
                .strip_prefix(&theirs)
                .is_some_and(|suffix| SUFFIXES.contains(&suffix))
            && self.words.len() == known.words.len()
        {
            return Some("suffix");
        }
        slip(&mine, &theirs, self, known)
    }
}

/// Returns the kind of slip by which one name differs from the other.
fn slip(mine: &str, theirs: &str, name: &ComparedName, known: &ComparedName) -> Option<&'static str> {
    // If one word of several differs, only that word decides: `eks-docs` is no slip of `ecs-docs`.
    let differing = differing(&name.all, &known.all).or_else(|| differing(&name.words, &known.words));
    let (a, b) = differing.unwrap_or((mine, theirs));
    let length = a.chars().count().max(b.chars().count());
    let shorter = a.chars().count().min(b.chars().count());
    if least_distance(a, b) <= SLIPS {
        let distance = strsim::osa_distance(a, b);
        if distance == 1 && shorter >= SWAP && strsim::levenshtein(a, b) == 2 {
            return Some("transposition");
        }
        if distance == 1 && length >= SLIP && shorter >= SWAP {
            return Some("edit");
        }
        // Two letters more make another word: `markdown` is no slip of `markitdown`.
        if distance == SLIPS
            && length >= TWO_SLIPS
            && same_start(a, b)
            && (length == shorter || scored(a, b, distance) >= LIKE)
        {
            return Some("edits");
        }
    }
    (length > LONG && scores(&name.folded, &known.folded)).then_some("levenshtein")
}

/// Returns the only word in which names with the same number of words differ.
fn differing<'a>(a: &'a [String], b: &'a [String]) -> Option<(&'a str, &'a str)> {
    let mut differing = a.iter().zip(b).filter(|(a, b)| a != b);
    let pair = differing.next().filter(|_| a.len() == b.len())?;
    differing
        .next()
        .is_none()
        .then_some((pair.0.as_str(), pair.1.as_str()))
}

/// Returns 1 minus the edit distance divided by the longer length; a swap of neighbours is one edit. Names are short.
fn score(a: &str, b: &str) -> f64 {
    scored(a, b, strsim::osa_distance(a, b))
}

/// Returns whether the score is at least that of similar long names.
fn scores(a: &str, b: &str) -> bool {
    scored(a, b, least_distance(a, b)) >= LIKE && score(a, b) >= LIKE
}

fn scored(a: &str, b: &str, distance: usize) -> f64 {
    let length = a.chars().count().max(b.chars().count());
    let count = |count: usize| u32::try_from(count).map_or(f64::MAX, f64::from);
    1.0 - count(distance) / count(length.max(1))
}

/// Returns a lower bound of the edit distance: an edit makes a name longer or shorter by one letter, and changes at
/// most one letter. It is much cheaper, because most names of a long list have nothing in common.
fn least_distance(a: &str, b: &str) -> usize {
    let letters = |name: &str| {
        name.chars()
            .fold(0_u64, |letters, c| letters | 1 << (u32::from(c) % 64))
    };
    let apart = (letters(a) ^ letters(b)).count_ones() as usize;
    let longer = a.chars().count().abs_diff(b.chars().count());
    longer.max(apart.div_ceil(2))
}

/// Returns whether two words have the same first letter: a slip is seldom at the start, where other words often differ.
fn same_start(a: &str, b: &str) -> bool {
    a.chars().next() == b.chars().next()
}

fn sorted(words: &[String]) -> Vec<&String> {
    let mut words: Vec<&String> = words.iter().collect();
    words.sort_unstable();
    words
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use test_case::test_case;

    use super::*;

    #[test_case("githib", "github", Some("edit"); "a letter changed")]
    #[test_case("gihtub", "github", Some("transposition"); "letters that changed places")]
    #[test_case("notes-servar", "notes-server", Some("edit"); "a slip in the common word")]
    #[test_case("gіthub", "github", Some("skeleton"); "a look alike")]
    #[test_case("file-system", "filesystem", Some("delimiter"); "a delimiter more")]
    #[test_case("charts.js", "charts-js", Some("delimiter"); "another delimiter")]
    #[test_case("thinking-sequential", "sequential-thinking", Some("word_order"); "words in another order")]
    #[test_case("puppeteerjs", "puppeteer", Some("suffix"); "an ending")]
    #[test_case("git.host/them/tool-kit", "git.host/us/tool-kit", Some("owner"); "another owner of a module")]
    #[test_case("elasticserach2", "elasticsearch", Some("edits"); "two slips in a long word")]
    #[test_case("kubirnetis", "kubernetes", Some("edits"); "two letters replaced")]
    #[test_case("markdown", "markitdown", None; "two letters less")]
    #[test_case("browser-use", "browserbase", None; "another second word")]
    #[test_case("github", "github", None; "the same")]
    #[test_case("@acme/mcp-server-github", "github", None; "the same in a scope")]
    #[test_case("github_mcp", "server-github", None; "the same with other affixes")]
    #[test_case("ecs-mcp-server", "eks-mcp-server", None; "short words differ")]
    #[test_case("aws-pricing", "aws-billing", None; "another word")]
    #[test_case("redis", "redshift", None; "another name")]
    #[test_case("mcp-server", "mcp-servers", None; "nothing but affixes")]
    fn names_resemble(name: &str, known: &str, expected: Option<&str>) {
        assert_eq!(resembles(name, [known]).map(|found| found.method), expected);
    }

    #[test]
    fn the_likest_one_is_named_and_equality_ends_it() {
        let found = resembles(
            "sequentail-thinkin",
            ["sequential-thinkng", "sequential-thinking"],
        );
        let found = found.expect("it resembles both");
        assert_eq!(found.similar_to, "sequential-thinking");
        assert!(found.score > 0.85 && found.score < 1.0);
        assert_eq!(resembles("postgres", ["postgrest", "postgres"]), None);
    }

    #[test_case("notes-servar", "notes-server", 917; "a letter replaced")]
    #[test_case("notes2", "notes", 833; "a letter more")]
    #[test_case("weather-app", "weather-api", 909; "another ending")]
    #[test_case("notes-servers", "notes-server", 923; "a plural")]
    #[test_case("gіthub", "github", 1000; "a look alike")]
    fn ratio_decides_at_a_threshold(name: &str, known: &str, thousandths: u32) {
        let score = f64::from(thousandths) / 1000.0;
        assert!(similar(name, [known], score - 0.001).is_some());
        assert_eq!(similar(name, [known], score + 0.001), None);
        assert_eq!(similar(known, [known], 0.0), None, "the same name");
    }

    #[test]
    fn well_known_names_do_not_resemble_each_other() {
        for name in well_known() {
            assert_eq!(resembles(name, well_known().iter().copied()), None, "{name}");
        }
    }

    proptest! {
        #[test]
        fn the_least_distance_is_no_more_than_the_distance(a in "[a-zа-я.-]{0,12}", b in "[a-zа-я.-]{0,12}") {
            prop_assert!(least_distance(&a, &b) <= strsim::osa_distance(&a, &b));
        }

        #[test]
        fn names_that_are_near_have_a_small_one(name in "[a-h]{6,12}", at in 0_usize..6, c in "[a-z]") {
            let mut near = name.clone();
            near.replace_range(at..=at, &c);
            prop_assert!(least_distance(&name, &near) <= 1);
        }
    }
}
