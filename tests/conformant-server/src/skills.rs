//! The skills (SEP-2640), and two ways in which their server can turn bad: it changes a file under an unchanged
//! manifest, or the manifest itself.

use rmcp::{
    ErrorData,
    model::{
        CacheScope, GetSkillResult, ListResourcesResult, ListSkillsResult, Resource, ResourceContents, Skill,
        SkillFrontmatter, SkillResource, SkillResources,
    },
};

const NOTES: &str = "skill://notes/SKILL.md";
const GUIDE: &str = "skill://notes/guide.md";
const NEWS: &str = "skill://news/SKILL.md";
const DIRECTORY: &str = "skill://notes";

const NOTES_TEXT: &str = "---\nname: notes\ndescription: Takes notes of a meeting.\n---\n\nWrite what was decided, as guide.md says.\n";
const GUIDE_TEXT: &str = "Name who decided, and when.\n";
const OTHER_GUIDE_TEXT: &str = "Name who decided, when, and why.\n";
const NEWS_TEXT: &str = "---\nname: news\ndescription: Tells what is new.\n---\n\nNothing is new.\n";

/// The time for which an entry is fresh, in milliseconds.
const FRESH_MS: u64 = 60_000;

/// The edition that the server serves of the skill with a manifest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Edition {
    /// The first edition.
    #[default]
    First,
    /// The files of the second edition under the manifest of the first.
    Behind,
    /// The second edition.
    Second,
}

impl Edition {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        match name {
            "first" => Some(Self::First),
            "behind" => Some(Self::Behind),
            "second" => Some(Self::Second),
            _ => None,
        }
    }

    const fn told(self) -> &'static str {
        match self {
            Self::First | Self::Behind => GUIDE_TEXT,
            Self::Second => OTHER_GUIDE_TEXT,
        }
    }

    const fn served(self) -> &'static str {
        match self {
            Self::First => GUIDE_TEXT,
            Self::Behind | Self::Second => OTHER_GUIDE_TEXT,
        }
    }

    fn skills(self) -> Vec<Skill> {
        let files = [(NOTES, NOTES_TEXT), (GUIDE, self.told())];
        let files = files.map(|(uri, text)| SkillResource::from_bytes(uri, text.as_bytes()));
        let notes = SkillFrontmatter::new("notes", "Takes notes of a meeting.");
        let news = SkillFrontmatter::new("news", "Tells what is new.");
        vec![
            Skill::new(NOTES, notes, SkillResources::Files(files.into())),
            Skill::new(NEWS, news, SkillResources::Dynamic),
        ]
    }

    pub(crate) fn list(self) -> ListSkillsResult {
        ListSkillsResult::with_all_items(self.skills())
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Public)
    }

    /// Returns the entry of one of the skills.
    pub(crate) fn get(self, uri: &str) -> Result<GetSkillResult, ErrorData> {
        let skill = self.skills().into_iter().find(|skill| skill.uri == uri);
        let skill = skill.ok_or_else(|| ErrorData::invalid_params("no such skill", None))?;
        Ok(GetSkillResult::new(skill)
            .with_ttl_ms(FRESH_MS)
            .with_cache_scope(CacheScope::Public))
    }

    /// Returns the files in a directory.
    pub(crate) fn directory(uri: &str) -> Result<ListResourcesResult, ErrorData> {
        if uri != DIRECTORY {
            return Err(ErrorData::invalid_params("no such directory", None));
        }
        let files = [(NOTES, "SKILL.md"), (GUIDE, "guide.md")];
        let files = files.map(|(uri, name)| Resource::new(uri, name));
        Ok(ListResourcesResult::with_all_items(files.into()))
    }

    /// Returns the content of a file.
    pub(crate) fn file(self, uri: &str) -> Option<ResourceContents> {
        let text = match uri {
            NOTES => NOTES_TEXT,
            GUIDE => self.served(),
            NEWS => NEWS_TEXT,
            _ => return None,
        };
        Some(ResourceContents::text(text, uri).with_mime_type("text/markdown"))
    }
}
